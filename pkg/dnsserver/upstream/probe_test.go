// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// TestRun_SilentServer: the first of two servers is silent. No query fails. The server gets
// a query and then probes, until it replies to one.
func TestRun_SilentServer(t *testing.T) {
	noLeaks(t)
	var replies atomic.Bool
	var queries, probes atomic.Int64
	first := serve(t, func(_ string, query *dns.Msg) [][]byte {
		if query.Question[0].Qtype == dns.TypeSOA && query.Question[0].Name == "corp.example." {
			probes.Add(1)
		} else {
			queries.Add(1)
		}
		if !replies.Load() {
			return nil
		}
		return [][]byte{pack(t, reply(query, 0, "192.0.2.1"))}
	})
	second := serve(t, always(t, 0, "192.0.2.2"))
	registry := prometheus.NewRegistry()
	cfg := upstream.Config{TryTimeout: upstream.DefaultTryTimeout, Zone: "corp.example.", Metrics: upstream.NewMetrics(registry)}
	c := newClient(t, cfg, first, second)
	run(t, c)
	for i := range 100 {
		if got := addresses(t, c, fmt.Sprintf("n%d.corp.example.", i)); got != "192.0.2.2" {
			t.Errorf("query %d: %s", i, got)
		}
	}
	if n := queries.Load(); n < 1 || n > 50 { // more than one if the second server is slow on a busy machine
		t.Errorf("the silent server got %d of 100 queries", n)
	}
	poll.Until(t, "the overtaken query in the metrics", func() bool {
		series := series(t, registry, map[string]*fake{"first": first, "second": second})
		return strings.Contains(series, "attempts_total udp overtaken first corp.example. = ")
	})
	poll.Until(t, "two failed probes", func() bool { return c.Status()[0].Down })
	replies.Store(true)
	poll.Until(t, "the server is up", func() bool { return !c.Status()[0].Down })
	expect(t, c, "192.0.2.1")
	if n := probes.Load(); n < 2 || n > 10 {
		t.Errorf("%d probes", n)
	}
}

// TestRun_RemovedServer: a server that was removed is not probed again.
func TestRun_RemovedServer(t *testing.T) {
	noLeaks(t)
	first, second := serve(t, silent), serve(t, always(t, 0, "192.0.2.2"))
	c := newClient(t, upstream.Config{TryTimeout: upstream.DefaultTryTimeout}, first, second)
	stop := run(t, c)
	expect(t, c, "192.0.2.2")
	poll.Until(t, "two failures", func() bool { return c.Status()[0].Down })
	c.SetServers([]upstream.Server{second.Server})
	stop() // at once: noLeaks finds a goroutine that goes on
	expect(t, c, "192.0.2.2")
}

// TestExchange_IterativeNotCounted: servers may drop queries without RD. That does not count as a failure.
func TestExchange_IterativeNotCounted(t *testing.T) {
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		if !query.RecursionDesired {
			return nil
		}
		return [][]byte{good(t, query)}
	})
	c := newClient(t, upstream.Config{TryTimeout: short / 3, Timeout: short}, s)
	for i := range 3 {
		query := ask(fmt.Sprintf("n%d.example.", i))
		query.RecursionDesired = false
		if m, err := c.Exchange(t.Context(), query); err == nil {
			t.Errorf("got %v", m)
		}
	}
	if c.Status()[0].Down {
		t.Error("the server is down")
	}
}
