// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// A rollout over nodes, each with clients in a pod that look up a name, and send no query again.
const (
	rolloutNodes   = 20
	rolloutStep    = 5 * time.Second
	rolloutClients = 26                     // of a node
	rolloutPause   = 100 * time.Millisecond // of a client
	rolloutTimeout = 5 * time.Second        // as that of a C library, after which a query is lost
	rolloutLookups = 1_000_000
)

// rolloutPod is the pod of the clients.
var rolloutPod = loadPod{library: "client", policy: "rollout"}

const rolloutRecords = `
cluster.local.                     5 IN SOA ns.cluster.local. admin.cluster.local. 1 2 3 4 5
dns.kube-system.svc.cluster.local. 5 IN A   192.0.2.53
web.shop.svc.cluster.local.        5 IN A   10.96.1.2
`

// TestRollout replaces the node caches of all nodes one after another, with the steps of a DaemonSet: with maxSurge
// the new instance serves before the older one is terminated, without it the new instance starts when the older one has
// ended. No query is lost.
func TestRollout(t *testing.T) {
	nodetools.Install(t)
	program := process.Build(t)
	var nodes []*served
	for range rolloutNodes {
		s := &served{machine: newBareMachine(t, ""), program: program, addrs: []netip.Addr{outside}}
		s.run(t, fmt.Sprintf("ip addr add %s/32 dev lo && ip addr add %s/32 dev lo && echo added", nodeCache, outside))
		s.internet = s.startOutside(t, rolloutRecords)
		s.startNodeCache(t)
		s.addPod(t, rolloutPod, 1)
		nodes = append(nodes, s)
	}
	var replies, lost atomic.Int64
	var clients sync.WaitGroup
	done := make(chan struct{})
	for _, s := range nodes {
		for range rolloutClients {
			conn := s.dialInPod(t)
			clients.Go(func() { lookUpUntil(done, conn, &replies, &lost) })
		}
	}
	for surge := 1; replies.Load() < rolloutLookups; surge = 1 - surge {
		before := replies.Load()
		for _, s := range nodes {
			next := time.After(rolloutStep)
			s.replaceNodeCache(t, surge == 1)
			<-next
		}
		t.Logf("maxSurge %d: %d replies, %d queries lost so far", surge, replies.Load()-before, lost.Load())
	}
	close(done)
	clients.Wait()
	if lost.Load() > 0 {
		t.Errorf("%d of %d queries were lost", lost.Load(), lost.Load()+replies.Load())
	}
}

// replaceNodeCache makes a step of a rollout.
func (s *served) replaceNodeCache(t *testing.T, surge bool) {
	t.Helper()
	before := s.cache
	if !surge {
		s.end(t, before, "TERM")
	}
	s.startNodeCache(t)
	if surge {
		s.end(t, before, "TERM")
	}
}

// dialInPod returns a socket in the pod for queries to the node cache.
func (s *served) dialInPod(t *testing.T) (conn net.Conn) {
	t.Helper()
	must.Succeed(t, s.inside("root/run/netns/"+rolloutPod.String(), func() (err error) {
		conn, err = net.Dial("udp", at(nodeCache))
		return err
	}))
	t.Cleanup(func() { conn.Close() })
	return conn
}

// lookUpUntil looks up a name until done is closed, and counts the replies with its address, and the queries without.
func lookUpUntil(done <-chan struct{}, conn net.Conn, replies, lost *atomic.Int64) {
	client := dns.Client{Timeout: rolloutTimeout}
	for tick := time.Tick(rolloutPause); ; {
		select {
		case <-done:
			return
		case <-tick:
		}
		query := new(dns.Msg).SetQuestion("web.shop.svc.cluster.local.", dns.TypeA)
		reply, _, err := client.ExchangeWithConn(query, &dns.Conn{Conn: conn})
		if err != nil || len(reply.Answer) != 1 {
			lost.Add(1)
		} else {
			replies.Add(1)
		}
	}
}
