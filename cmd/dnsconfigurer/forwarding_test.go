// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

// TestFollowHost has a host file whose servers are there before the first query, and
// whose changes are told when they are about servers.
func TestFollowHost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	write := func(text string) {
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write("nameserver 192.0.2.1\nnameserver 192.0.2.1%lo\n")
	var log lockedBuffer
	used := make(chan bool, 1)
	f, err := newForwarding(peers{resolvConf: path}, upstream.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))},
		func(*forwarding, change) { used <- true })
	if err != nil {
		t.Fatal(err)
	}
	expect := func(want string) {
		t.Helper()
		var servers []upstream.Server
		for _, s := range f.clients[0].Status() {
			servers = append(servers, s.Server)
		}
		if got := fmt.Sprint(servers); got != want {
			t.Errorf("%s are asked, want %s\n%s", got, want, log.String())
		}
	}
	expect("[192.0.2.1:53]")
	stop := f.start(t.Context())
	defer stop()
	write("nameserver 192.0.2.1\nsearch other.example\n")
	write("nameserver 192.0.2.2\nnameserver 192.0.2.1\n")
	<-used
	expect("[192.0.2.2:53 192.0.2.1:53]")
	stop()
	select {
	case <-used:
		t.Error("told of a change that was none")
	default:
	}
}

// TestReplacedForwarding has a host file change while the servers that it names are
// being replaced: the server hears of those in force alone, and forgets what it knows.
func TestReplacedForwarding(t *testing.T) {
	s, err := newDNSSettings(v1alpha1.DNSConfiguration{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	z, err := s.zone()
	if err != nil {
		t.Fatal(err)
	}
	replies, err := cache.New(cache.Config{})
	if err != nil {
		t.Fatal(err)
	}
	server, err := dnsserver.New(dnsserver.Config{Zone: z, Domain: s.domain, Cache: replies})
	if err != nil {
		t.Fatal(err)
	}
	force := &dnsInForce{server: server, log: slog.New(slog.DiscardHandler)}
	if err := force.use(s.peers); err != nil {
		t.Fatal(err)
	}
	before := force.forwarding
	s.peers.upstreams = []upstream.Server{{Addr: netip.MustParseAddrPort("192.0.2.1:53")}}
	if err := force.use(s.peers); err != nil {
		t.Fatal(err)
	}
	query := new(dns.Msg).SetQuestion("a.example.", dns.TypeA)
	question, _ := cache.NewQuestion(query, nil)
	replies.Put(question, new(dns.Msg).SetRcode(query, dns.RcodeServerFailure), time.Now())
	for _, c := range []struct {
		changed *forwarding
		want    int
	}{{before, 1}, {force.forwarding, 0}} {
		force.hostChanged(c.changed, otherServers)
		if got := replies.Stats().Entries; got != c.want {
			t.Errorf("the cache has %d replies, want %d", got, c.want)
		}
	}
}
