// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

const corpZone = `$TTL 60
@ IN SOA ns admin 1 2 3 4 5
@ NS ns
ns A 192.0.2.1
WWW A 192.0.2.2
a.b.c TXT deep
*.w A 192.0.2.3
x.y.w TXT below
alias CNAME www
sub NS ns.sub
ns.sub A 192.0.2.4
other.example. A 192.0.2.5
`

var corpOrigin = fqdn.Join(fqdn.Root, "corp", "example")

// TestZoneFile_Answer: the answer for each name and type, with the records of the first section that has some.
func TestZoneFile_Answer(t *testing.T) {
	records, err := parseZone(corpZone, corpOrigin)
	if err != nil {
		t.Fatal(err)
	}
	soa := ": corp.example. 60 IN SOA ns.corp.example. admin.corp.example. 1 2 3 4 5"
	for question, want := range map[string]string{
		"corp.example. NS":              "NOERROR: corp.example. 60 IN NS ns.corp.example.",
		"wWw.corp.example. A":           "NOERROR: wWw.corp.example. 60 IN A 192.0.2.2",
		"www.corp.example. AAAA":        "NOERROR" + soa,
		"b.c.corp.example. A":           "NOERROR" + soa,
		"x.b.c.corp.example. A":         "NXDOMAIN" + soa,
		"q.r.w.corp.example. A":         "NOERROR: q.r.w.corp.example. 60 IN A 192.0.2.3",
		"q.w.corp.example. TXT":         "NOERROR" + soa,
		"q.y.w.corp.example. A":         "NXDOMAIN" + soa,
		"alias.corp.example. A":         "NOERROR: alias.corp.example. 60 IN CNAME www.corp.example.",
		"alias.corp.example. CNAME":     "NOERROR: alias.corp.example. 60 IN CNAME www.corp.example.",
		"x.sub.corp.example. A":         "NOERROR: sub.corp.example. 60 IN NS ns.sub.corp.example.",
		"sub.corp.example. DS":          "NOERROR" + soa,
		`a\.b.c.corp.example. A`:        "NXDOMAIN" + soa,
		"other.example.corp.example. A": "NXDOMAIN" + soa,
	} {
		text, qtype, _ := strings.Cut(question, " ")
		name, err := fqdn.ParseName(text)
		if err != nil {
			t.Fatal(err)
		}
		m := new(dns.Msg).SetQuestion(text, dns.StringToType[qtype])
		records.answer(m, name, corpOrigin)
		got := dns.RcodeToString[m.Rcode]
		for _, rr := range append(m.Answer, m.Ns...)[:1] {
			got += ": " + strings.ReplaceAll(rr.String(), "\t", " ")
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", question, got, want)
		}
	}
}

// TestParseZone_Invalid: files that the server does not use.
func TestParseZone_Invalid(t *testing.T) {
	for text, want := range map[string]string{
		"www 60 IN A 192.0.2.1":           "no SOA record",
		corpZone + "$INCLUDE /etc/passwd": "$INCLUDE",
		corpZone + "d DNAME e":            "DNAME",
		corpZone + "d CH TXT e":           "other classes",
		corpZone + "www A 192.0.2":        "bad A",
		corpZone + strings.Repeat("$GENERATE 0-60000 $.$ A 192.0.2.1\n$ORIGIN x\n", 6): "more than 500000 names",
	} {
		if _, err := parseZone(text, corpOrigin); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.300q: %v, want %s", text, err, want)
		}
	}
}

// TestZoneFile_Reload: a changed file is applied; one that is invalid or missing, also in a reload, keeps its records.
func TestZoneFile_Reload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "zone")
	c := forwarding{Stubs: []stubDomain{{StubDomain: upstream.StubDomain{Zone: "corp.example."}, File: path}}}
	server := newTestServer(t, dnsserver.Limits{})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		run := func() {
			background := server.apply(c)
			go func() { _ = background(ctx) }()
		}
		run()
		for i, step := range []struct {
			change func() error
			want   string
		}{
			{func() error { return nil }, "SERVFAIL"},
			{func() error { return os.WriteFile(path, []byte(corpZone), 0o600) }, "192.0.2.2"},
			{func() error {
				return os.WriteFile(path, []byte(strings.ReplaceAll(corpZone, "192.0.2.2", "192.0.2.9")), 0o600)
			}, "192.0.2.9"},
			{func() error { return os.WriteFile(path, []byte("x"), 0o600) }, "192.0.2.9"},
			{func() error { c.LastKnownGood = time.Minute; run(); return os.Remove(path) }, "192.0.2.9"},
		} {
			if err := step.change(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(fileInterval + time.Millisecond)
			synctest.Wait()
			m, err := server.forwarder.Stubs[0].Exchange(ctx, new(dns.Msg).SetQuestion("www.corp.example.", dns.TypeA))
			if err != nil || !strings.Contains(m.String(), step.want) {
				t.Errorf("step %d: got %v, %v, want %s", i, m, err, step.want)
			}
		}
	})
}
