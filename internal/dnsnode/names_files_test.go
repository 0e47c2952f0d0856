// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestHosts_Watch: a changed file is applied, also one that appears later. A file that cannot be read keeps its names.
func TestHosts_Watch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		h := hosts{file: path, ttl: 60}
		text, err := readFile(h.file)
		if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		applied := 0
		go func() {
			_ = watchFile(ctx, h.file, text, func(string) { applied++ }, slog.New(slog.DiscardHandler))
		}()
		for i, step := range []struct {
			change func() error
			want   int
		}{
			{func() error { return os.WriteFile(path, []byte("192.0.2.7 a.example"), 0o600) }, 1},
			{func() error { return nil }, 1},
			{func() error { return os.WriteFile(path, []byte("192.0.2.8 a.example"), 0o600) }, 2},
			{func() error { return os.Remove(path) }, 2},
		} {
			must.Succeed(t, step.change())
			time.Sleep(fileInterval + time.Millisecond)
			synctest.Wait()
			if applied != step.want {
				t.Errorf("step %d: applied %d times, want %d", i, applied, step.want)
			}
		}
		cancel()
	})
}

// TestHosts_Parse: invalid lines of the file are logged within bounds, and the others count.
func TestHosts_Parse(t *testing.T) {
	var log strings.Builder
	h := hosts{entries: []string{"192.0.2.7 a.example"}, file: "f"}
	h.parse(strings.Repeat("x y\n", 1000), nil, slog.New(slog.NewTextHandler(&log, nil)))
	if got := log.String(); !strings.Contains(got, "line 1: ") || len(got) > 2*maxHostsError || strings.Count(got, "\n") != 1 {
		t.Errorf("%d octets: %.200s", len(got), got)
	}
}

// TestHosts_Reload: a reload of another field, while the file cannot be read, keeps the names of the file. Another file
// that cannot be read has none.
func TestHosts_Reload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	must.Succeed(t, os.WriteFile(path, []byte("192.0.2.7 a.example"), 0o600))
	server := newTestServer(t, dnsserver.Limits{})
	for i, step := range []struct {
		change func() error
		c      forwarding
		want   string
	}{
		{func() error { return nil }, forwarding{Hosts: hosts{file: path, ttl: 60}}, "192.0.2.7 a.example"},
		{func() error { return os.Remove(path) }, forwarding{Hosts: hosts{file: path, ttl: 30}}, "192.0.2.7 a.example"},
		{func() error { return nil }, forwarding{Hosts: hosts{file: path, ttl: 30}, Policy: upstream.Random}, "192.0.2.7 a.example"},
		{func() error { return nil }, forwarding{Hosts: hosts{file: path + ".other"}}, ""},
	} {
		must.Succeed(t, step.change())
		server.apply(step.c)
		if server.hostsText != step.want {
			t.Errorf("step %d: got %q, want %q", i, server.hostsText, step.want)
		}
	}
}

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
	records := must.Get(parseZone(corpZone, corpOrigin))(t)
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
		name := must.Get(fqdn.ParseName(text))(t)
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
			must.Succeed(t, step.change())
			time.Sleep(fileInterval + time.Millisecond)
			synctest.Wait()
			m, err := server.forwarder.Stubs[0].Exchange(ctx, new(dns.Msg).SetQuestion("www.corp.example.", dns.TypeA))
			if err != nil || !strings.Contains(m.String(), step.want) {
				t.Errorf("step %d: got %v, %v, want %s", i, m, err, step.want)
			}
		}
	})
}

// TestPinner: the addresses of a name remain while its servers fail, and go when they deny the name.
func TestPinner(t *testing.T) {
	const name, before = "registry.example.", "192.0.2.1 registry.example.\n2001:db8::1 registry.example.\n"
	answer := dnstest.Records(t, name+" 5 IN A 192.0.2.3\n"+name+" 5 IN A 192.0.2.2\n")
	rcode := func(code int) dnsserver.Exchange {
		return func(_ context.Context, q *dns.Msg) (*dns.Msg, error) { return new(dns.Msg).SetRcode(q, code), nil }
	}
	for _, tt := range []struct {
		title    string
		exchange dnsserver.Exchange
		want     string
	}{
		{"addresses", func(_ context.Context, q *dns.Msg) (*dns.Msg, error) { return answer(q), nil },
			"192.0.2.2 registry.example.\n192.0.2.3 registry.example.\n"},
		{"no reply", func(context.Context, *dns.Msg) (*dns.Msg, error) { return nil, errors.New("timeout") }, before},
		{"SERVFAIL", rcode(dns.RcodeServerFailure), before},
		{"NXDOMAIN", rcode(dns.RcodeNameError), ""},
	} {
		t.Run(tt.title, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pinned")
			must.Succeed(t, os.WriteFile(file, []byte("damaged\n"+before+"192.0.2.9 other.example.\n"), 0o600))
			synctest.Test(t, func(t *testing.T) {
				served := 0
				p := &pinner{pinnedNames: pinnedNames{[]fqdn.Name{mustName(t, name)}, file}, exchange: tt.exchange,
					serve: func(*dnsserver.Hosts) { served++ }, served: new(atomic.Pointer[string]), log: slog.New(slog.DiscardHandler)}
				p.load()
				ctx, stop := context.WithTimeout(t.Context(), 2*pinnedTTL*time.Second)
				defer stop()
				if err := p.run(ctx); err != nil {
					t.Error(err)
				}
				if got := p.lines[p.names[0]]; got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				reloaded := &pinner{pinnedNames: pinnedNames{p.names, ""}, serve: p.serve, served: p.served, log: p.log}
				reloaded.load()
				if got := reloaded.lines[p.names[0]]; got != tt.want {
					t.Errorf("after a reload without a file: got %q, want %q", got, tt.want)
				}
				if text, err := os.ReadFile(file); err != nil || tt.want != before && string(text) != tt.want {
					t.Errorf("the file has %q, want %q; %v", text, tt.want, err)
				}
			})
		})
	}
}

func mustName(t *testing.T, text string) fqdn.Name {
	t.Helper()
	return must.Get(fqdn.ParseName(text))(t)
}
