// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestGuard_Interval: without an event the addresses are checked every minute, and every five
// seconds while there is a problem. After a restoration they are checked at once.
func TestGuard_Interval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(nil, nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = g.checkPeriodically(ctx) }()
		expect := func(after time.Duration, want bool) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.checked != want {
				t.Errorf("%v later: checked is %t, want %t", after, g.checked, want)
			}
			g.checked = false
		}
		for range 2 {
			expect(guardInterval-time.Nanosecond, false)
			expect(time.Nanosecond, true)
		}
		g.mu.Lock()
		g.missing = problems{netip.MustParseAddrPort("169.254.20.10:53"): errors.New("no such device")}
		g.mu.Unlock()
		daemon.Notify(g.probeNow)
		expect(0, true)
		expect(guardRetry-time.Nanosecond, false)
		expect(time.Nanosecond, true)
	})
}

func TestCheckTakeover(t *testing.T) {
	other := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	defer other.Close()
	inUse, free := netip.MustParseAddrPort(other.LocalAddr().String()), netip.MustParseAddrPort("127.0.0.1:0")
	reply := func(rcode int) func(context.Context, *dns.Msg) (*dns.Msg, error) {
		return func(_ context.Context, query *dns.Msg) (*dns.Msg, error) {
			return new(dns.Msg).SetRcode(query, rcode), nil
		}
	}
	fail := func(context.Context, *dns.Msg) (*dns.Msg, error) { return nil, errors.New("no reply") }
	for _, tt := range []struct {
		name    string
		addr    netip.AddrPort
		cluster func(context.Context, *dns.Msg) (*dns.Msg, error)
		want    string // "": takes over
		after   time.Duration
	}{
		{"no other instance", free, fail, "", 0},
		{"cluster DNS reachable", inUse, reply(dns.RcodeSuccess), "", 0},
		{"cluster DNS unreachable", inUse, fail, "not taking over " + inUse.String() +
			": cluster DNS unreachable for 5s: no reply", takeoverTimeout},
		{"cluster DNS not loaded", inUse, reply(dns.RcodeServerFailure),
			"not taking over " + inUse.String() + ": cluster DNS unreachable for 5s: SERVFAIL for cluster.local.", takeoverTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				cluster := &clusterCheck{exchange: tt.cluster, domain: fqdn.Join(fqdn.Root, "cluster", "local")}
				err := checkTakeover(t.Context(), []netip.AddrPort{free, tt.addr}, cluster)
				if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %q", err, tt.want)
				}
				if took := time.Since(began); took != tt.after {
					t.Errorf("it took %v, want %v", took, tt.after)
				}
			})
		})
	}
}
