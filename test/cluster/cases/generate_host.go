// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"slices"
	"strings"
)

// host writes the host file of c. A file that is refused usually goes to pods that need
// it: for others it is a divergence, which must stay rare.
func (g generator) host(c *Case) {
	refused := 0.0055
	if c.Base() == HostBase {
		refused = 0.06
	}
	if c.ResolvConfMode == FileMode && g.chance(refused/3) {
		c.ResolvConfMode = MissingMode
	}
	var lines []string
	for range g.IntN(8) {
		lines = append(lines, g.hostLine())
	}
	if g.chance(0.12) { // also around the limits of the node's own file
		lines = append(lines, g.line("search", g.manyDomains(pick(g, 28, 29, 30, 31, 32, 33, 40))...))
	}
	if g.chance(refused) {
		lines = append(lines, pick(g, "nameserver", " nameserver ", "nameserver\t", "nameserver\u00a0"))
	}
	if g.chance(0.003) {
		lines = append(lines,
			pick(g, "nameserver 192.0.2.\x001", "nameserver 192.0.2.2\x00", "search a\x00b caf\xe9.example", "options nul\x00:1"))
	}
	g.Shuffle(len(lines), func(i, k int) { lines[i], lines[k] = lines[k], lines[i] })
	for i := range lines {
		lines[i] += g.lineEnd(i == len(lines)-1)
	}
	c.HostResolvConf = strings.Join(lines, "")
	if g.chance(0.02) {
		c.HostResolvConf = "\ufeff" + c.HostResolvConf
	}
	if g.chance(0.0002) {
		c.HostSize = 10<<20 - 1 // read
		if c.Base() == HostBase || g.chance(0.3) {
			c.HostSize = 10 << 20 // not read
		}
	}
}

func (g generator) lineEnd(last bool) string {
	switch {
	case last && g.chance(0.3):
		return ""
	case g.chance(0.1):
		return "\r\n"
	case g.chance(0.02):
		return pick(g, "\r", "\u0085", "\u2028", "\v") // white space, not a line end
	}
	return "\n"
}

func (g generator) hostLine() string {
	switch n := g.IntN(100); {
	case n < 35:
		return g.line("nameserver", g.server()) + pick(g, "", "", "", "", " # remark", " ; remark", " 9.9.9.9", "\\")
	case n < 58:
		return g.line("search", g.searches(g.count(4, 0, 1, 6, 7))...) + pick(g, "", "", "", " # office b", ".")
	case n < 76:
		return g.line("options", g.hostOptions(g.IntN(5))...) + pick(g, "", "", "", " # three")
	}
	return pick(g, "", " \t", "# nameserver 192.0.2.9", "  # search x", ";nameserver 192.0.2.9", "; search x", "domain corp.example",
		"sortlist 192.0.2.0/24", "Nameserver 192.0.2.3", "nameservers 192.0.2.3", "nameserver=192.0.2.3", "SEARCH x", "option ndots:3",
		"nameserver\u00a0192.0.2.4", "\u3000nameserver 192.0.2.5", "search\u0085a.example\u2003b.example", "search\ta.example\vb.example",
		"\ufeffnameserver 192.0.2.6", "nameserver192.0.2.7", "#", ";", "search .", "search", "options", "options ndots:2 ndots:3")
}

// line joins fields with the separators in use.
func (g generator) line(keyword string, fields ...string) string {
	if len(fields) == 1 && fields[0] == "" {
		fields = nil
	}
	sep := " "
	if g.chance(0.1) {
		sep = pick(g, "\t", "  ", " \t ", "\f", "\u00a0", "\u1680", "\u202f")
	}
	s := strings.Join(append([]string{keyword}, fields...), sep)
	if g.chance(0.05) {
		s = pick(g, " ", "\t", "\u2009") + s + pick(g, " ", "\t\t", "\u205f")
	}
	return s
}

func (g generator) searches(n int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = g.search()
	}
	return slices.DeleteFunc(s, func(s string) bool { return s == "" })
}

func (g generator) hostOptions(n int) []string {
	return g.some(n, "ndots:1", "ndots:2", "ndots:", "ndots", "timeout:2", "timeout:3", "attempts:3",
		"rotate", "edns0", "trust-ad", "a:b:c",
		"a:", ":x", ":", "Ndots:4", "no-aaaa", "use-vc", "#")
}
