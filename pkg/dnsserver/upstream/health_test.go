// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// names lists servers by the last octet of their addresses.
func names(list []*server) string {
	var s []string
	for _, one := range list {
		s = append(s, one.Addr.Addr().String()[len("192.0.2."):])
	}
	return strings.Join(s, " ")
}

func makeServers(addresses ...string) []*server {
	var list []*server
	for _, a := range addresses {
		addr := netip.AddrPortFrom(netip.MustParseAddr("192.0.2."+a), 53)
		list = append(list, &server{Server: Server{Addr: addr}, log: slog.New(slog.DiscardHandler), created: time.Now()})
	}
	return list
}

// newOrderClient returns a client for tests of the order of servers.
func newOrderClient(policy Policy) *Client { return &Client{cfg: Config{Policy: policy}} }

// The order of three servers as they fail and reply.
func TestOrder_Down(t *testing.T) {
	now := time.Now()
	list, c := makeServers("1", "2", "3"), newOrderClient(Sequential)
	timeout := errors.New("no answer")
	expect := func(want string) {
		t.Helper()
		if got := names(c.order(list)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	expect("1 2 3")
	list[0].recordFailure(now, timeout)
	expect("1 2 3") // a packet may be lost
	list[0].recordReply(now)
	list[0].recordFailure(now, timeout)
	expect("1 2 3") // not consecutive
	list[0].recordFailure(now, timeout)
	expect("2 3 1")
	list[1].silent.Store(true)
	expect("3 1 2")
	list[2].silent.Store(true)
	expect("1 2 3") // all
	list[0].recordReply(now)
	list[1].recordReply(now)
	expect("1 2 3")
	list[2].recordReply(now)
	list[1].silent.Store(true)
	list[1].recordFailure(now, timeout)
	expect("1 3 2")
	list[1].recordReply(now)
	expect("1 2 3")

	if !list[0].repliedSince(now.Add(-1)) || list[0].repliedSince(now) {
		t.Error("want a reply of the first server at this time")
	}
}

// The policies spread queries over the servers. Those that are down remain at the end.
func TestOrder_Policy(t *testing.T) {
	const queries = 3000
	for _, policy := range []Policy{Sequential, Random, RoundRobin} {
		for _, down := range []bool{false, true} {
			list, c := makeServers("1", "2", "3"), newOrderClient(policy)
			if down {
				list[1].silent.Store(true)
			}
			first, last := map[string]int{}, map[string]int{}
			for range queries {
				order := strings.Fields(names(c.order(list)))
				first[order[0]]++
				last[order[2]]++
			}
			share := func(n int) bool { return n > queries/3-200 && n < queries/3+200 } // seven standard deviations
			switch {
			case down && last["2"] != queries:
				t.Errorf("%s: the server that is down is last in %d of %d", policy, last["2"], queries)
			case policy == Sequential && first["1"] != queries:
				t.Errorf("%s: %v", policy, first)
			case policy != Sequential && !down && (!share(first["1"]) || !share(first["2"]) || !share(first["3"])):
				t.Errorf("%s: %v", policy, first)
			case policy != Sequential && down && min(first["1"], first["3"]) < queries/4:
				t.Errorf("%s: %v while one is down", policy, first)
			}
		}
	}
}

// IDs are neither ordered nor biased as far as a thousand of them show.
func TestRandomID_Distribution(t *testing.T) {
	var ids []uint16
	var ones [16]int
	for range 1000 {
		id := randomID()
		ids = append(ids, id)
		for bit := range ones {
			ones[bit] += int(id >> bit & 1)
		}
	}
	for bit, n := range ones { // eight standard deviations
		if n < 370 || n > 630 {
			t.Errorf("bit %d is set in %d of 1000", bit, n)
		}
	}
	if slices.IsSorted(ids) || len(slices.Compact(ids)) < 990 {
		t.Error("the IDs are sorted or repeat")
	}
}

// A server that fails and replies in turn is logged once in logInterval, a server that is
// down for good without delay.
func TestServer_LogInterval(t *testing.T) {
	var log strings.Builder
	s := &server{log: slog.New(slog.NewTextHandler(&log, nil))}
	now := time.Unix(1e9, 0)
	expect := func(what string, warnings, infos int) {
		t.Helper()
		if w, i := strings.Count(log.String(), "WARN"), strings.Count(log.String(), "INFO"); w != warnings || i != infos {
			t.Errorf("%s: %d warnings and %d infos, want %d and %d", what, w, i, warnings, infos)
		}
	}
	fail := func(times int) {
		for range times {
			s.recordFailure(now, errors.New("silent"))
		}
	}
	fail(1)
	s.recordReply(now)
	expect("one lost packet", 0, 0)
	for range 1000 {
		fail(maxFailures)
		s.recordReply(now)
		now = now.Add(time.Millisecond)
	}
	expect("a second of changes", 1, 1)
	fail(100)
	expect("down", 1, 1)
	now = now.Add(logInterval)
	fail(100)
	expect("down for 30 seconds", 2, 1)
	s.recordReply(now)
	s.recordReply(now)
	expect("up again", 2, 2)
}
