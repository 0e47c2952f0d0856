// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// TestServers_Ports has pods that listen on another port than 53, behind a Service that lacks a
// protocol: the pods are queried where they listen, and not blamed.
func TestServers_Ports(t *testing.T) {
	for _, tt := range []struct {
		name     string
		slice    []int32 // ports of the EndpointSlice for UDP and TCP; 0: none
		declared []int32 // ports of the pod for UDP and TCP; 0: none
		udp, tcp uint16
	}{
		{"the Service leads to both", []int32{1053, 1054}, []int32{1053, 1054}, 1053, 1054},
		{"no UDP port", []int32{0, 1053}, []int32{1054, 1053}, 1054, 1053},
		{"no TCP port", []int32{1053, 0}, []int32{1053, 1054}, 1053, 1054},
		{"no port", []int32{0, 0}, []int32{1053, 1054}, 1053, 1054},
		{"no TCP port, and the pod declares none", []int32{1053, 0}, []int32{0, 0}, 1053, 1053},
		{"nothing is known", []int32{0, 0}, []int32{0, 0}, 53, 53},
		{"a wrong port of the Service", []int32{5353, 5353}, []int32{1053, 1053}, 5353, 5353},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := snapshotOf(t, healthy(t))
			for i := range s.Slices {
				s.Slices[i].Ports = nil
				for j, protocol := range []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP} {
					name := []string{"dns", "dns-tcp"}[j]
					if port := tt.slice[j]; port != 0 {
						p := discoveryv1.EndpointPort{Name: &name, Protocol: &protocol, Port: &port}
						s.Slices[i].Ports = append(s.Slices[i].Ports, p)
					}
				}
			}
			for i := range s.Pods {
				c := &s.Pods[i].Spec.Containers[0]
				c.Ports = nil
				for j, protocol := range []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP} {
					if port := tt.declared[j]; port != 0 {
						c.Ports = append(c.Ports, corev1.ContainerPort{Name: "dns", Protocol: protocol, ContainerPort: port})
					}
				}
			}
			endpoint := netip.MustParseAddr("10.244.1.2")
			want := Server{netip.AddrPortFrom(endpoint, tt.udp), netip.AddrPortFrom(endpoint, tt.tcp), RoleEndpoint,
				"kube-system", "coredns-1"}
			if servers := Servers(s); !slices.Contains(servers, want) {
				t.Errorf("no %v in %v", want, servers)
			}
		})
	}
}
