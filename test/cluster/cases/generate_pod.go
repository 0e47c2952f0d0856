// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// pod gives c a pod of any API server version: a kubelet validates little of it.
func (g generator) pod(c *Case) {
	c.Pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pick(g, "default", "default", "team-a", "kube-system", "", g.label(1+g.IntN(63))),
			Name:      g.podName(),
			UID:       types.UID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", g.Uint32())),
		},
		Spec: corev1.PodSpec{
			DNSPolicy:   g.policy(),
			HostNetwork: g.chance(0.22),
		},
	}
	if g.chance(0.02) {
		c.NodeName = pick(g, "node-2", "worker.example", "Node-3")
	}
	if g.chance(0.003) {
		c.Pod.Annotations = map[string]string{policy.OverrideAnnotation: pick(g,
			"ClusterFirstWithAutopath", "clusterFirstWithAutopath", "Default", "None", "clusterfirst", "")}
	}
	g.names(c)
	if g.chance(0.55) {
		c.Pod.Spec.DNSConfig = g.dnsConfig()
	}
	if g.chance(0.01) {
		c.Pod.Spec.OS = &corev1.PodOS{Name: pick(g, corev1.Linux, corev1.Windows)}
	}
}

func (g generator) policy() corev1.DNSPolicy {
	switch n := g.IntN(1000); {
	case n < 380:
		return corev1.DNSClusterFirst
	case n < 600:
		return corev1.DNSDefault
	case n < 740:
		return corev1.DNSNone
	case n < 870:
		return corev1.DNSClusterFirstWithHostNet
	case n < 872:
		return pick[corev1.DNSPolicy](g, "ClusterFirstWithAutopath", "clusterFirstWithAutopath")
	}
	return pick[corev1.DNSPolicy](g, "", "clusterFirst", "Bogus", "Default ", "NONE", "Custom")
}

// podName returns a pod's name, often of a length at which hostnames are truncated.
func (g generator) podName() string {
	if g.chance(0.6) {
		return pick(g, "web-0", "web-0.east.example", "db", g.label(8+g.IntN(40)))
	}
	return pick(g, g.label(60+g.IntN(7)), g.domain(60+g.IntN(194)), g.cutName())
}

// cutName returns a long name whose first 63 bytes end in characters that a hostname must
// not end in, or consist of them.
func (g generator) cutName() string {
	end := pick(g, "-", ".", "--", ".-", "-.", "..-", "-")
	if g.chance(0.05) {
		return strings.Repeat(pick(g, "-", "."), 64+g.IntN(3))
	}
	return g.label(63-len(end)) + end + g.label(1+g.IntN(20))
}

// names sets the fields that determine hostname and FQDN.
func (g generator) names(c *Case) {
	spec := &c.Pod.Spec
	if g.chance(0.25) {
		spec.Hostname = g.hostname()
	}
	if g.chance(0.3) {
		spec.Subdomain = pick(g, "db", "db", "headless", g.hostname())
	}
	if g.chance(0.12) {
		name := pick(g, g.hostname(), g.domain(62+g.IntN(5)), g.cutName(), "", "a.b", "Upper.Example",
			"a..b", "a.", g.domain(252+g.IntN(3)))
		spec.HostnameOverride = &name
	}
	if g.chance(0.35) {
		set := g.chance(0.8)
		spec.SetHostnameAsFQDN = &set
	}
	if g.chance(0.06) {
		g.exactFQDN(c)
	}
}

func (g generator) hostname() string {
	if g.chance(0.5) {
		return pick(g, "web", "a", "0", g.label(1+g.IntN(63)), g.label(62), g.label(63))
	}
	return pick(g, g.label(64), g.label(65), "has.dot", "-lead", "trail-", "under_score", "Web",
		"h h", "a..b", ".", "é", g.domain(70), strings.ToUpper(g.label(64)))
}

// exactFQDN makes the FQDN as long as the kernel's limit, a byte shorter or longer.
func (g generator) exactFQDN(c *Case) {
	spec := &c.Pod.Spec
	c.Pod.Namespace = pick(g, "default", "team-a", "")
	spec.Subdomain = pick(g, "db", "headless")
	set := g.chance(0.95)
	spec.SetHostnameAsFQDN = &set
	domain := "." + spec.Subdomain + "." + c.Pod.Namespace + ".svc." + c.ClusterDomain
	n := 63 + g.IntN(3) - len(domain)
	if n < 1 {
		return
	}
	if g.chance(0.5) {
		spec.Hostname = g.label(n)
		return
	}
	c.Pod.Name, spec.Hostname = g.label(n), ""
}

func (g generator) dnsConfig() *corev1.PodDNSConfig {
	config := new(corev1.PodDNSConfig)
	if g.chance(0.1) {
		return config
	}
	for range g.count(2, 2, 3, 4, 6) {
		config.Nameservers = append(config.Nameservers, g.server())
	}
	config.Searches = g.searches(g.count(3, 6, 7))
	if g.chance(0.08) {
		config.Searches = append(config.Searches, g.manyDomains(pick(g, 28, 29, 30, 31, 32, 33, 40))...)
	}
	for range g.IntN(4) {
		config.Options = append(config.Options, g.podOption())
	}
	if g.chance(0.0025) {
		g.breakLine(config)
	}
	return config
}

func (g generator) podOption() corev1.PodDNSConfigOption {
	o := corev1.PodDNSConfigOption{Name: pick(g, "ndots", "ndots", "ndots", "timeout", "rotate",
		"edns0", "a", "Ndots", "", ":", "ndots:2", "ndots:5")}
	if g.chance(0.7) {
		value := pick(g, "5", "2", "1", "", "x y", "3:4", ":")
		o.Value = &value
	}
	return o
}

// breakLine adds a value with a line break or a separator in it.
func (g generator) breakLine(config *corev1.PodDNSConfig) {
	evil := pick(g, "1.1.1.1\nsearch evil.example", "a\x00", "\n", "x\n")
	switch g.IntN(4) {
	case 0:
		config.Nameservers = append([]string{evil}, config.Nameservers...)
	case 1:
		config.Searches = append([]string{pick(g, evil, "a b", "a\u00a0b", "tab\t")}, config.Searches...)
	case 2:
		name := "broken"
		if len(evil) < 3 {
			name = "ndots" // which the base or the pod often has
		}
		config.Options = append(config.Options, corev1.PodDNSConfigOption{Name: name, Value: &evil})
	case 3:
		config.Options = append(config.Options, corev1.PodDNSConfigOption{Name: evil})
	}
}

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

// fillSearches gives c a search list of 2047, 2048 or 2049 bytes, in the pod's dnsConfig
// or in the host file, after the domains of its base.
func (g generator) fillSearches(c *Case) {
	if c.Manifest || c.ResolvConfMode == MissingMode {
		return
	}
	length, count := 0, 0
	if c.Base() == ClusterBase && c.ClusterDomain != "" {
		svc := "svc." + c.ClusterDomain
		length, count = len(c.Pod.Namespace+"."+svc+" "+svc+" "+c.ClusterDomain+" "), 3
	} else if c.Base() == HostBase && c.ResolvConfMode == DisabledMode {
		length, count = len(". "), 1
	}
	domains := g.listOf(2047+g.IntN(3)-length, 32-count)
	c.HostResolvConf = ""
	if c.ResolvConfMode == FileMode && g.chance(0.5) {
		c.HostResolvConf = "search " + strings.Join(domains, " ") + "\n"
		return
	}
	if c.Pod.Spec.DNSConfig == nil {
		c.Pod.Spec.DNSConfig = new(corev1.PodDNSConfig)
	}
	c.Pod.Spec.DNSConfig.Searches = domains
}

// listOf returns at most limit domains of n bytes in total, with the blanks between them.
func (g generator) listOf(n, limit int) []string {
	var domains []string
	for n > 0 {
		l := min(n, 253)
		if len(domains) < limit-12 { // the rest in long ones, so that the count fits
			l = min(l, 64+g.IntN(190))
		}
		if n-l == 1 { // no room for a blank and a domain
			l--
		}
		domains = append(domains, g.domain(l))
		n -= l + 1
	}
	return domains
}
