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

// The order of three servers over time, in seconds.
func TestOrder_Backoff(t *testing.T) {
	const probeTime = 2 * time.Second
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	list := makeServers("1", "2", "3")
	timeout := errors.New("no answer")
	fail := func(s *server, seconds float64) { s.recordFailure(at(seconds), timeout) }
	expect := func(seconds float64, want string) {
		t.Helper()
		if got := names(order(list, at(seconds), probeTime)); got != want {
			t.Errorf("at %v: %s, want %s", seconds, got, want)
		}
	}
	expect(0, "1 2 3")
	fail(list[0], 0)
	expect(0, "1 2 3") // a packet may be lost
	list[0].recordReply(at(0))
	fail(list[0], 0)
	expect(0, "1 2 3") // not consecutive
	fail(list[0], 0)
	expect(0, "2 3 1") // backs off for a second
	expect(0.9, "2 3 1")
	expect(1, "1 2 3") // one query is the probe
	expect(1, "2 3 1") // the next is not
	fail(list[0], 1.5)
	expect(3.4, "2 3 1") // two seconds
	expect(3.5, "1 2 3")
	expect(5.4, "2 3 1") // the result of the probe is unknown
	expect(5.5, "1 2 3")
	list[0].recordReply(at(5.5))
	expect(5.6, "1 2 3")

	if !list[0].repliedSince(at(5)) || list[0].repliedSince(at(5.5)) || list[1].repliedSince(at(0)) {
		t.Error("want a reply of the first server at 5.5, none of the second")
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
	expect(39.5, "1 3 2") // all back off: 1 and 3 until 40, 2 until 41
	expect(40, "1 3 2")   // 1 and 3 are probed
}

func TestOrder_Looping(t *testing.T) {
	list := makeServers("1", "2")
	list[0].looping = true
	if got := names(order(list, time.Now(), time.Second)); got != "2" {
		t.Errorf("%s", got)
	}
	list[1].looping = true
	if got := order(list, time.Now(), time.Second); len(got) != 0 {
		t.Errorf("%s", names(got))
	}
	if got := names(list); got != "1 2" {
		t.Errorf("the list itself was changed to %s", got)
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
