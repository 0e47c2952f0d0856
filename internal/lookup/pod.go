// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// FindPod returns the pod or workload with the name NAME or NAMESPACE/NAME. A workload
// has its own name and that of its pods. namespace is the default for name and for the
// workloads; node is as in [kube.Workload.OnNode].
func FindPod(workloads []kube.Workload, name, namespace, node string) (kube.Workload, error) {
	if !strings.Contains(name, "/") {
		name = namespace + "/" + name
	}
	var found []kube.Workload
	var others, places []string
	for _, w := range workloads {
		placed := w.OnNode(namespace, node)
		w.Namespace, w.Pod = placed.Namespace, placed.Pod
		if name != w.Namespace+"/"+w.Name && name != w.Namespace+"/"+w.Pod.Name {
			others = append(others, w.Namespace+"/"+w.Name)
			continue
		}
		found = append(found, w)
		places = append(places, w.Kind+" in "+w.At("").String())
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return kube.Workload{}, fmt.Errorf("no pod or workload %s in the manifests: found only %s", name, strings.Join(others, ", "))
	}
	return kube.Workload{}, fmt.Errorf("pod %s is ambiguous: %s", name, strings.Join(places, ", "))
}

// etcHosts returns the names that the kubelet writes into the pod's /etc/hosts. The pod's
// own name is one of them if the manifest has the addresses of a running pod.
func etcHosts(pod *corev1.Pod, d *policy.Decision) map[string][]netip.Addr {
	v4, v6 := netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()
	hosts := map[string][]netip.Addr{
		"localhost":     {v4, v6},
		"ip6-localhost": {v6},
		"ip6-loopback":  {v6},
	}
	add := func(ip string, names ...string) {
		a, ok := config.ParseAddr(ip)
		for _, name := range names {
			if ok && name != "" {
				hosts[strings.ToLower(name)] = append(hosts[strings.ToLower(name)], a)
			}
		}
	}
	if !pod.Spec.HostNetwork {
		for _, ip := range pod.Status.PodIPs {
			add(ip.IP, d.Hostname)
			if d.FQDN != d.Hostname {
				add(ip.IP, d.FQDN)
			}
		}
	}
	for _, alias := range pod.Spec.HostAliases {
		add(alias.IP, alias.Hostnames...)
	}
	return hosts
}
