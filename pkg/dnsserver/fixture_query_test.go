// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
)

// parseQuery returns the query for "NAME TYPE".
func parseQuery(question string, edns bool) *dns.Msg {
	name, qtype, _ := strings.Cut(question, " ")
	q := new(dns.Msg).SetQuestion(name, dns.StringToType[qtype])
	if edns {
		q.SetEdns0(1232, false)
	}
	return q
}

// newQuery returns a query with EDNS0, and with each search list in a SearchPaths option.
func newQuery(name string, qtype uint16, searchLists ...string) *dns.Msg {
	q := new(dns.Msg).SetQuestion(name, qtype).SetEdns0(1232, false)
	for _, list := range searchLists {
		q.IsEdns0().Option = append(q.IsEdns0().Option, &dns.EDNS0_LOCAL{Code: autopath.DefaultOption, Data: []byte(list)})
	}
	return q
}

// mustPack returns the wire form of a message.
func mustPack(t testing.TB, m *dns.Msg) []byte {
	t.Helper()
	packed, err := m.Pack()
	if err != nil {
		t.Error(err)
	}
	return packed
}

// replyText returns a reply as dig shows it, with addresses in sorted order: the server
// rotates them.
func replyText(m *dns.Msg) string {
	var b strings.Builder
	b.WriteString(dns.RcodeToString[m.Rcode])
	for _, f := range []struct {
		set  bool
		name string
	}{{m.Authoritative, "aa"}, {m.Truncated, "tc"}, {m.AuthenticatedData, "ad"}, {isExpanded(m), "expanded"}} {
		if f.set {
			b.WriteString(" " + f.name)
		}
	}
	b.WriteString("\n")
	section := func(prefix string, records []dns.RR) {
		var lines []string
		for _, rr := range records {
			if rr.Header().Rrtype != dns.TypeOPT {
				lines = append(lines, strings.ReplaceAll(rr.String(), "\t", " "))
			}
		}
		if len(lines) > 1 && !strings.Contains(lines[0], " CNAME ") {
			slices.Sort(lines)
		}
		for _, line := range lines {
			b.WriteString(prefix + line + "\n")
		}
	}
	section("", m.Answer)
	section("authority: ", m.Ns)
	section("additional: ", m.Extra)
	return b.String()
}

// addresses returns the IPv4 addresses of a reply, "TC" included if it is truncated, or else
// its rcode.
func addresses(m *dns.Msg) string {
	var list []string
	for _, rr := range m.Answer {
		if a, ok := rr.(*dns.A); ok {
			list = append(list, a.A.String())
		}
	}
	if m.Truncated {
		list = append(list, "TC")
	}
	if len(list) == 0 {
		return dns.RcodeToString[m.Rcode]
	}
	return strings.Join(list, " ")
}

// extendedErrorsOf returns the extended errors of a reply (RFC 8914).
func extendedErrorsOf(m *dns.Msg) (list []*dns.EDNS0_EDE) {
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*dns.EDNS0_EDE); ok {
				list = append(list, e)
			}
		}
	}
	return list
}

// extendedCode returns the code of a reply's first extended error, or -1.
func extendedCode(m *dns.Msg) int {
	if list := extendedErrorsOf(m); len(list) > 0 {
		return int(list[0].InfoCode)
	}
	return -1
}

// extendedErrors returns the codes and texts of the extended errors of a reply.
func extendedErrors(m *dns.Msg) string {
	var list []string
	for _, e := range extendedErrorsOf(m) {
		list = append(list, strings.TrimSpace(fmt.Sprint(e.InfoCode, " ", e.ExtraText)))
	}
	return strings.Join(list, ", ")
}

// isExpanded reports whether a reply has exactly one SearchPaths option, which is empty: the
// echo of a server that has expanded the search list.
func isExpanded(m *dns.Msg) bool {
	n := 0
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if local, ok := o.(*dns.EDNS0_LOCAL); ok && local.Code == autopath.DefaultOption && len(local.Data) == 0 {
				n++
			}
		}
	}
	return n == 1
}
