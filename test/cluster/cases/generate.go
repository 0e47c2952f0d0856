// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
)

// Generate yields n cases; the same seed gives the same cases. Values come from both
// sides of every limit and from real configurations with errors.
func Generate(seed uint64, n int) iter.Seq[Case] {
	return func(yield func(Case) bool) {
		g := generator{rand.New(rand.NewPCG(seed, 0))}
		for i := range n {
			if !yield(g.generate(fmt.Sprintf("g%d-%05d", seed, i))) {
				return
			}
		}
	}
}

// generator has a method for each part of a case, from node facts to labels.
type generator struct{ *rand.Rand }

func (g generator) generate(id string) Case {
	c := Case{ID: id, ClusterDNS: g.clusterDNS(), ClusterDomain: g.clusterDomain(), NodeIPs: g.nodeIPs()}
	if g.chance(0.06) {
		c.ResolvConfMode = DisabledMode
	}
	if g.chance(0.05) {
		g.manifest(&c)
	} else {
		g.pod(&c)
	}
	g.host(&c)
	if g.chance(0.04) {
		g.fillSearches(&c)
	}
	return c
}

func (g generator) clusterDNS() []string {
	n := 1
	switch {
	case g.chance(0.1):
		n = 0
	case g.chance(0.3):
		n = 2 + g.IntN(4)
	}
	return g.some(n, "10.96.0.10", "10.96.0.10", "10.43.0.10", "fd00:10:96::a", "169.254.20.10",
		"FD00:10:96:0::A", "::ffff:10.96.0.10", "010.096.0.10", "fe80::1%eth0", "kube-dns", "", " 10.96.0.10", "10.96.0.10:53")
}

func (g generator) clusterDomain() string {
	if g.chance(0.6) {
		return "cluster.local"
	}
	return pick(g, "", "", "cluster.local.", "Cluster.Local", "k8s.example.com", "c", "k8s", g.domain(236+g.IntN(20)))
}

func (g generator) nodeIPs() []string {
	return g.some(g.IntN(3), "192.0.2.10", "192.0.2.11", "2001:db8::10", "::ffff:192.0.2.10", "::", "0.0.0.0")
}

func (g generator) chance(p float64) bool { return g.Float64() < p }

func pick[T any](g generator, values ...T) T { return values[g.IntN(len(values))] }

// some returns n values, with repetitions.
func (g generator) some(n int, values ...string) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = pick(g, values...)
	}
	return s
}

// label returns a DNS label of n bytes, also above the limit.
func (g generator) label(n int) string {
	const outer, inner = "abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghijklmnopqrstuvwxyz0123456789-"
	b := make([]byte, n)
	for i := range b {
		b[i] = inner[g.IntN(len(inner))]
		if i == 0 || i == n-1 {
			b[i] = outer[g.IntN(len(outer))]
		}
	}
	return string(b)
}

// domain returns a name of n bytes, also above the limit, of valid labels.
func (g generator) domain(n int) string {
	var b strings.Builder
	for n > 63 {
		l := min(20+g.IntN(44), n-2)
		b.WriteString(g.label(l) + ".")
		n -= l + 1
	}
	b.WriteString(g.label(n))
	return b.String()
}

// search returns an entry of a search list.
func (g generator) search() string {
	if g.chance(0.6) {
		return pick(g, "example.com", "corp.example", "lan", "ec2.internal", "svc.cluster.local", "cluster.local", g.domain(1+g.IntN(30)))
	}
	return pick(g, "example.com.", "cluster.local.", "Example.COM", ".", "..", "...", "b..", ".a", "a..b", "#", ";", "_tcp.example.com",
		"-bad.example", "под.example", g.domain(252), g.domain(253), g.domain(254), g.domain(255), g.domain(252)+".", g.domain(253)+".",
		g.label(63)+".example", g.label(64)+".example", g.domain(100+g.IntN(120)))
}

// manyDomains returns n different short domains.
func (g generator) manyDomains(n int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = fmt.Sprintf("d%d.%s", i, g.label(1+g.IntN(20)))
	}
	return s
}

// server returns a nameserver in one of the notations in use.
func (g generator) server() string {
	return pick(g, "8.8.8.8", "8.8.8.8", "8.8.4.4", "1.1.1.1", "9.9.9.9", "192.0.2.53",
		"2001:4860:4860::8888", "2001:4860:4860:0:0:0:0:8888",
		"FD00::A", "fd00::a", "fd00:0::a", "::1", "127.0.0.53", "fe80::1%eth0", "10.96.0.10",
		"::ffff:8.8.8.8", "8.8.08.8", "1.1.1.1,8.8.8.8",
		"dns.example.com", "[::1]:53", "256.1.1.1")
}

// count returns the length of a list: usually small, often one of sides.
func (g generator) count(small int, sides ...int) int {
	if g.chance(0.15) {
		return pick(g, sides...)
	}
	return g.IntN(small + 1)
}
