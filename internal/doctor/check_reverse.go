// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// reverseChecks are about the reverse zones of the cluster DNS of dnsconfigurer.
func reverseChecks() []Check {
	return []Check{{
		Code: "dns-reverse-networks", Severity: policy.SeverityWarning,
		What: "the cluster DNS of dnsconfigurer has no `reverseCIDRs`",
		cause: "reverse names without an address of the cluster are forwarded, and a Service or an EndpointSlice " +
			"can have a reverse name for any address",
		next:  "kubectl -n $NS edit configmap $NAME: set reverseCIDRs to the networks of Services and pods; restart the pods",
		needs: []need{needDNS, needConfiguration}, find: findReverseNetworks,
	}}
}

// needConfiguration are the ConfigMaps that the pods of the cluster DNS mount.
func needConfiguration(v *view) (string, bool) {
	why := cmp.Or(v.Unread[Pods], v.unreadMount())
	return why, why == ""
}

// dnsConfiguration returns the DNSConfiguration of the cluster DNS and its ConfigMap, nil if there is none.
func (v *view) dnsConfiguration() (*corev1.ConfigMap, v1alpha1.DNSConfiguration) {
	for _, p := range v.dnsPods {
		for _, name := range MountedConfigMaps(p) {
			config := v.configMap(p.Namespace, name)
			if config == nil {
				continue
			}
			for _, key := range slices.Sorted(maps.Keys(config.Data)) {
				if c, err := v1alpha1.ParseDNS([]byte(config.Data[key])); err == nil {
					return config, c
				}
			}
		}
	}
	return nil, v1alpha1.DNSConfiguration{}
}

func findReverseNetworks(v *view) []hit {
	config, c := v.dnsConfiguration()
	hasFlag := slices.ContainsFunc(v.dnsPods, func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
			return strings.Contains(strings.Join(c.Args, " "), "--reverse-cidr")
		})
	})
	if config == nil || len(c.ReverseCIDRs) > 0 || hasFlag {
		return nil
	}
	return []hit{{
		object: object{"ConfigMap", config.Namespace, config.Name}, message: "reverseCIDRs is not set",
		evidence: []string{
			fmt.Sprintf("addresses of Services are in %v", zone.Networks(v.clusterIPs())),
			fmt.Sprintf("addresses of pods are in %v", zone.Networks(v.podIPs())),
		},
	}}
}

// clusterIPs yields the addresses of Services.
func (v *view) clusterIPs() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for i := range v.Services {
			for _, text := range v.Services[i].Spec.ClusterIPs {
				if addr, err := netip.ParseAddr(text); err == nil && !yield(addr) { // "None" is not an address
					return
				}
			}
		}
	}
}

// podIPs yields the addresses of pods that do not have the address of their node.
func (v *view) podIPs() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for i := range v.Pods {
			p := &v.Pods[i]
			for _, ip := range p.Status.PodIPs {
				if addr, err := netip.ParseAddr(ip.IP); err == nil && !p.Spec.HostNetwork && !yield(addr) {
					return
				}
			}
		}
	}
}
