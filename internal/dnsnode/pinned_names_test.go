// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

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
			if err := os.WriteFile(file, []byte("damaged\n"+before+"192.0.2.9 other.example.\n"), 0o600); err != nil {
				t.Fatal(err)
			}
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
	name, err := fqdn.ParseName(text)
	if err != nil {
		t.Fatal(err)
	}
	return name
}
