// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestNodeCacheUpgrades replaces the server ten times while it is asked without pause: the
// next instance begins, is ready, and then the one before is told to end. No query is lost,
// over UDP and over TCP; none is sent twice.
func TestNodeCacheUpgrades(t *testing.T) {
	const upgrades, clients = 10, 8
	n := newNodeCache(t, "corp.example")
	stop := make(chan struct{})
	var asked, lost atomic.Int64
	var asking sync.WaitGroup
	halt := sync.OnceFunc(func() {
		close(stop)
		asking.Wait()
	})
	defer halt()
	for i := range clients {
		asking.Go(func() {
			c := dns.Client{Timeout: 5 * time.Second, Net: []string{"udp", "tcp"}[i/(clients-2)]}
			for j := 0; ; j++ {
				select {
				case <-stop:
					return
				default:
				}
				q := new(dns.Msg).SetQuestion("payments.search.shop.cluster.local.ap.k8s.io.", dns.TypeA)
				if j%10 == 0 { // one that the cache does not have
					q.SetQuestion(fmt.Sprintf("a%d-%d.example.", i, j), dns.TypeTXT)
				}
				m, _, err := c.Exchange(q, n.addr)
				asked.Add(1)
				if bad := err != nil || m.Rcode != dns.RcodeSuccess || len(m.Answer) == 0; bad && lost.Add(1) == 1 {
					t.Errorf("over %s: %v\n%v\n%v", c.Net, err, q, m)
				}
			}
		})
	}
	for range upgrades {
		next := &dnsProcess{t: t, addr: n.addr, http: n.http}
		_, end := startCommand(t, []string{"nodecache", "--config", n.config, "--listen", n.addr, "--http", n.http}, &next.log)
		next.eventually("the next instance", func() bool { return strings.Contains(next.log.String(), "msg=serving") })
		before := asked.Load()
		next.eventually("some load", func() bool { return asked.Load() > before+200 })
		n.stop()
		n.stop = end
	}
	halt()
	t.Logf("%d queries over %d upgrades, %d lost", asked.Load(), upgrades, lost.Load())
}

// TestNodeCacheUnfit: an instance that does not reach the cluster DNS leaves the addresses
// to the one that has them, which goes on answering; without another one it serves.
func TestNodeCacheUnfit(t *testing.T) {
	n := newNodeCache(t, "corp.example")
	const name = "payments.search.shop.cluster.local.ap.k8s.io."
	want := n.ask(name, dns.TypeA)
	unfit := []string{"nodecache", "--listen", n.addr, "--cluster-dns", freeAddr(t), "--upstream", freeAddr(t)}
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), unfit, nil, &stdout, &stderr)
	if said := stderr.String(); code != exitInput || !strings.Contains(said, "not taking over "+n.addr) {
		t.Errorf("exit code %d\n%s", code, said)
	}
	if got := n.ask(name, dns.TypeA); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	n.stop()
	alone := &dnsProcess{t: t, addr: n.addr}
	startCommand(t, unfit, &alone.log)
	alone.eventually("an instance without another one", func() bool { return strings.Contains(alone.log.String(), "msg=serving") })
}
