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

// TestNodeCache_Upgrade replaces the server ten times under load: the next instance starts and
// is ready, then the previous one gets the signal to terminate. No query is lost, over UDP and
// over TCP, without retries.
func TestNodeCache_Upgrade(t *testing.T) {
	const upgrades, clients = 10, 8
	n := newNodeCache(t, "corp.example")
	stop := make(chan struct{})
	var sent, lost atomic.Int64
	var clientsDone sync.WaitGroup
	halt := sync.OnceFunc(func() {
		close(stop)
		clientsDone.Wait()
	})
	defer halt()
	for i := range clients {
		clientsDone.Go(func() {
			c := dns.Client{Timeout: time.Minute, Net: []string{"udp", "tcp"}[i/(clients-2)]}
			for j := 0; ; j++ {
				select {
				case <-stop:
					return
				default:
				}
				q := new(dns.Msg).SetQuestion("payments.search.shop.cluster.local.ap.k8s.io.", dns.TypeA)
				if j%10 == 0 { // not cached
					q.SetQuestion(fmt.Sprintf("a%d-%d.example.", i, j), dns.TypeTXT)
				}
				m, _, err := c.Exchange(q, n.addr)
				sent.Add(1)
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
		before := sent.Load()
		next.eventually("some load", func() bool { return sent.Load() > before+200 })
		n.stop()
		n.stop = end
	}
	halt()
	t.Logf("%d queries over %d upgrades, %d lost", sent.Load(), upgrades, lost.Load())
}

// TestNodeCache_NoTakeover: an instance that does not reach the cluster DNS does not take the
// addresses over from a running one. Without another instance it serves.
func TestNodeCache_NoTakeover(t *testing.T) {
	n := newNodeCache(t, "corp.example")
	const name = "payments.search.shop.cluster.local.ap.k8s.io."
	want := n.ask(name, dns.TypeA)
	args := []string{"nodecache", "--listen", n.addr, "--cluster-dns", freeAddr(t), "--upstream", freeAddr(t)}
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, nil, &stdout, &stderr)
	if text := stderr.String(); code != exitFailed || !strings.Contains(text, "not taking over "+n.addr) {
		t.Errorf("exit code %d\n%s", code, text)
	}
	if got := n.ask(name, dns.TypeA); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	n.stop()
	alone := &dnsProcess{t: t, addr: n.addr}
	startCommand(t, args, &alone.log)
	alone.eventually("an instance without another one", func() bool { return strings.Contains(alone.log.String(), "msg=serving") })
}
