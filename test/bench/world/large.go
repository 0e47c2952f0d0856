// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Large returns a plain cluster of many services with a cluster IP, in a hundred
// namespaces, with as many endpoints and pods in all.
func Large(services, endpoints, pods int) *World {
	w := new(World)
	for i := range 100 {
		w.Namespaces = append(w.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("ns-%d", i)}})
	}
	http, tcp, port, yes := "http", corev1.ProtocolTCP, int32(8080), true
	for i := range services {
		ip := fmt.Sprintf("10.%d.%d.%d", 96+i>>16, i>>8&255, i&255)
		s := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespaces[i%100].Name, Name: fmt.Sprintf("svc-%d", i)},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip},
				Ports:    []corev1.ServicePort{{Name: http, Protocol: tcp, Port: 80}},
				Selector: map[string]string{"app": fmt.Sprintf("svc-%d", i)},
			},
		}
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.Namespace, Name: s.Name + "-abcde",
				Labels: map[string]string{discoveryv1.LabelServiceName: s.Name,
					discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"},
			},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: &http, Protocol: &tcp, Port: &port}},
		}
		for n := range endpoints / services {
			node := fmt.Sprintf("node-%d", (i+n)%1000)
			at := i*(endpoints/services) + n
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{podIP(at)}, Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes}, NodeName: &node,
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: s.Namespace, Name: fmt.Sprintf("%s-%d", s.Name, n)},
			})
		}
		w.Services, w.Slices = append(w.Services, s), append(w.Slices, slice)
	}
	for i := range pods {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespaces[i%100].Name,
			Name: fmt.Sprintf("pod-%d", i), Labels: map[string]string{"app": "web"}}}
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: podIP(i), PodIPs: []corev1.PodIP{{IP: podIP(i)}}}
		w.Pods = append(w.Pods, p)
	}
	return w
}

func podIP(n int) string { return fmt.Sprintf("10.%d.%d.%d", 128+n>>16, n>>8&255, n&255) }
