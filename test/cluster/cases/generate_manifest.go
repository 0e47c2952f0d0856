// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// manifest gives c a manifest that passes the API's validation, without the fields that
// the kubelet sets. Names differ: a kubelet accepts one pod of each name.
func (g generator) manifest(c *Case) {
	c.Manifest = true
	c.NodeName = pick(g, "", "node-1", "worker.east.example", g.staticNode(40), g.staticNode(63))
	c.Pod = &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pick(g, "", "kube-system", "team-a"),
			Name:      pick(g, "etcd-"+c.ID, c.ID+".x", g.label(20+g.IntN(40)), g.domain(55+g.IntN(30))),
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "registry.k8s.io/pause:3.10"}},
			DNSPolicy: pick(g, "", corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet,
				corev1.DNSDefault, corev1.DNSNone),
			HostNetwork: g.chance(0.4),
		},
	}
	spec := &c.Pod.Spec
	if g.chance(0.3) {
		spec.Hostname = g.label(1 + g.IntN(63))
	}
	if g.chance(0.3) {
		spec.Subdomain = g.label(1 + g.IntN(63))
	}
	if g.chance(0.3) {
		set := g.chance(0.7)
		spec.SetHostnameAsFQDN = &set
	}
	if g.chance(0.2) && !spec.HostNetwork && spec.SetHostnameAsFQDN == nil {
		name := g.domain(1 + g.IntN(64))
		spec.HostnameOverride = &name
	}
	if spec.DNSPolicy == corev1.DNSNone || g.chance(0.5) {
		spec.DNSConfig = g.validConfig()
	}
}

// staticNode returns one of few node names: the kubelet reads all manifests of a node
// at once.
func (g generator) staticNode(n int) string {
	const long = "rack-07.row-12.hall-b.dc-4.eu-west-1.compute.nodes.corp.example"
	return long[:n-1] + pick(g, "0", "1")
}

func (g generator) validConfig() *corev1.PodDNSConfig {
	config := &corev1.PodDNSConfig{
		Nameservers: g.some(1+g.IntN(3), "8.8.8.8", "1.1.1.1", "FD00::A", "fd00::a", "10.96.0.10"),
		Searches: g.some(g.IntN(8), "example.com", "cluster.local.", ".", "_tcp.example.com",
			"svc.cluster.local", g.domain(200), g.domain(253)),
	}
	for range g.IntN(4) {
		value := pick(g, "5", "2", "")
		o := corev1.PodDNSConfigOption{Name: pick(g, "ndots", "timeout", "rotate", "ndots:2"), Value: &value}
		if g.chance(0.3) {
			o.Value = nil
		}
		config.Options = append(config.Options, o)
	}
	return config
}
