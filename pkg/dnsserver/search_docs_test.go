// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// TestSearch_AgreesWithDocs: the messages, records and limits in docs/dns.md are those of
// the server. Other implementations depend on them.
func TestSearch_AgreesWithDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/dns.md")
	if err != nil {
		t.Fatal(err)
	}
	expectInPage := func(what, text string) {
		t.Helper()
		if !strings.Contains(string(page), text) {
			t.Errorf("docs/dns.md lacks %s:\n%s", what, text)
		}
	}

	paths, err := autopath.Encode([]fqdn.Name{mustName(t, "shop.svc.cluster.local"), mustName(t, "corp.example")})
	if err != nil {
		t.Fatal(err)
	}
	q := newQuery("web.", dns.TypeA, string(paths))
	q.Id = 0x2a2a
	query := mustPack(t, q)
	s := newServer(t, "service shop/web 10.96.0.7\nloaded", Config{})
	reply := handlePacket(t.Context(), s, query, overUDP, netip.MustParseAddr("169.254.20.10"))
	expectInPage("the query", hexDump(query))
	expectInPage("the reply", hexDump(reply))
	_, records, _ := strings.Cut(replyText(exchangeDirect(t, s, newQuery(autopathName("web", "shop"), dns.TypeA))), "\n")
	for line := range strings.Lines(records) {
		expectInPage("an answer", "    "+line)
	}

	for _, row := range []string{
		fmt.Sprintf("| option code | %d; may be any from %d to %d:", autopath.DefaultOption, autopath.MinOption, autopath.MaxOption),
		fmt.Sprintf("| domains in the option | %d |", autopath.MaxPaths),
		fmt.Sprintf("| octets of the option's value | %d |", autopath.MaxText),
		fmt.Sprintf("| host suffixes of a server, and domains outside the cluster in the option | %d |", MaxHostSuffixes),
		fmt.Sprintf("| time limit of an expansion | %v |", WalkTimeout),
		fmt.Sprintf("| upstream queries of one expansion | %d |", maxSubqueries),
	} {
		expectInPage("a limit", row)
	}
}

// hexDump returns a message in lines of 16 octets, in hexadecimal and as text.
func hexDump(packet []byte) string {
	var b strings.Builder
	for at := 0; at < len(packet); at += 16 {
		line := packet[at:min(at+16, len(packet))]
		var text []byte
		for _, c := range line {
			if c < '!' || c > '~' {
				c = '.'
			}
			text = append(text, c)
		}
		fmt.Fprintf(&b, "    %04x  %-47s  %s\n", at, fmt.Sprintf("% x", line), text)
	}
	return b.String()
}
