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
		list = append(list, &server{Server: Server{Addr: addr}, log: slog.New(slog.DiscardHandler)})
	}
	return list
}

// A story of three servers, told by who is asked in which order at which second.
func TestHealth(t *testing.T) {
	const probe = 2 * time.Second
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	list := makeServers("1", "2", "3")
	timeout := errors.New("no answer")
	fail := func(s *server, seconds float64) { s.failed(at(seconds), timeout) }
	expect := func(seconds float64, want string) {
		t.Helper()
		if got := names(order(list, Sequential, 0, at(seconds), probe)); got != want {
			t.Errorf("at %v: %s, want %s", seconds, got, want)
		}
	}
	expect(0, "1 2 3")
	fail(list[0], 0)
	expect(0, "1 2 3") // a packet may get lost
	list[0].succeeded(at(0))
	fail(list[0], 0)
	expect(0, "1 2 3") // not in a row
	fail(list[0], 0)
	expect(0, "2 3 1") // rests for a second
	expect(0.9, "2 3 1")
	expect(1, "1 2 3") // one query tries it
	expect(1, "2 3 1") // and the next do not
	fail(list[0], 1.5)
	expect(3.4, "2 3 1") // two seconds now
	expect(3.5, "1 2 3")
	expect(5.4, "2 3 1") // nobody told how it went
	expect(5.5, "1 2 3")
	list[0].succeeded(at(5.5))
	expect(5.6, "1 2 3")

	if !list[0].heardSince(at(5)) || list[0].heardSince(at(5.5)) || list[1].heardSince(at(0)) {
		t.Error("it has replied at 5.5, and the second one never")
	}

	for range 10 {
		fail(list[2], 10) // up to 30 seconds
	}
	expect(39.9, "1 2 3")
	for _, s := range list[:2] {
		fail(s, 39)
		fail(s, 39)
	}
	fail(list[1], 39)
	expect(39.5, "1 3 2") // all rest: first who is due first; 1 and 3 at 40, 2 at 41
	expect(40, "1 3 2")   // and 1 and 3 are tried
}

func TestPolicy(t *testing.T) {
	list := makeServers("1", "2", "3")
	now := time.Now()
	for turn, want := range []string{"1 2 3", "2 3 1", "3 1 2", "1 2 3"} {
		if got := names(order(list, RoundRobin, uint32(turn), now, time.Second)); got != want {
			t.Errorf("turn %d: %s, want %s", turn, got, want)
		}
		if got := names(order(list, Sequential, uint32(turn), now, time.Second)); got != "1 2 3" {
			t.Errorf("sequential turn %d: %s", turn, got)
		}
	}
	seen := map[string]bool{}
	for range 1000 {
		seen[names(order(list, Random, 0, now, time.Second))] = true
	}
	if len(seen) != 6 {
		t.Errorf("1000 times at random: %v", seen)
	}
	if got := names(list); got != "1 2 3" {
		t.Errorf("the list itself has become %s", got)
	}
}

func TestLoopingIsNotAsked(t *testing.T) {
	list := makeServers("1", "2")
	list[0].looping = true
	if got := names(order(list, Random, 0, time.Now(), time.Second)); got != "2" {
		t.Errorf("%s", got)
	}
	list[1].looping = true
	if got := order(list, RoundRobin, 0, time.Now(), time.Second); got != nil {
		t.Errorf("%s", names(got))
	}
}

// IDs are not to be guessed: no order, no bias that a thousand of them would show.
func TestRandomID(t *testing.T) {
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
		t.Error("the IDs follow each other")
	}
}

// What the log says of a server that fails and answers in turn: both, once in 30 seconds,
// and that it fails when it does so for good.
func TestHealthLog(t *testing.T) {
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
			s.failed(now, errors.New("silent"))
		}
	}
	fail(1)
	s.succeeded(now)
	expect("one lost packet", 0, 0)
	for range 1000 {
		fail(restAfter)
		s.succeeded(now)
		now = now.Add(time.Millisecond)
	}
	expect("a second of ups and downs", 1, 1)
	fail(100)
	expect("silence", 1, 1)
	now = now.Add(quiet)
	fail(100)
	expect("silence for 30 seconds", 2, 1)
	s.succeeded(now)
	s.succeeded(now)
	expect("it is back", 2, 2)
}
