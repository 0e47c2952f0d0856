// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

// TestPodLoad: two search domains without the name cost two pairs of queries, none costs one
// pair. A name that does not exist is tried with all of them.
func TestPodLoad(t *testing.T) {
	server := dnstest.Start(t, dnstest.Reply(upstream.Reply))
	l := podLoad{Address: netip.MustParseAddr("127.0.0.2"), Server: server.Addr, Rate: 1000}
	for _, tt := range []struct {
		name, search string
		want         podResult
	}{
		{"www.example.com", "search corp.internal dc.internal\n", podResult{Found: 10, Queries: 60}},
		{"www.example.com", "search corp.example dc.internal\n", podResult{Found: 10, Queries: 20}}, // www.example.com.corp.example
		{"www.example.com", "search .\n", podResult{Found: 10, Queries: 20}},
		{"absent.example.com", "search corp.internal\n", podResult{Failed: 10, Queries: 40}},
	} {
		l.ResolvConf = "nameserver 192.0.2.1\noptions ndots:5\n" + tt.search
		r, err := l.Run(t.Context(), 10, []string{tt.name})
		if err != nil || r.Found != tt.want.Found || r.Failed != tt.want.Failed || r.Queries != tt.want.Queries || len(r.Took) != 10 {
			t.Errorf("%s, %s: %+v, %v", tt.name, tt.search, r, err)
		}
	}
}

// TestDue: the time of a late lookup starts when it was due, that of an early one when it
// begins.
func TestDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for _, ahead := range []time.Duration{-time.Second, 0, time.Second} {
			due := now.Add(ahead)
			if got := waitUntil(t.Context(), due); !got.Equal(due) || time.Since(now) < ahead {
				t.Errorf("%v ahead: %v, want %v", ahead, got, due)
			}
		}
	})
}
