// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestForwarder_HostFileChanged: the servers in the host's file are used from the first
// query on. Only a change of the servers is reported.
func TestForwarder_HostFileChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	write := func(text string) {
		must.Succeed(t, os.WriteFile(path+".new", []byte(text), 0o600))
		must.Succeed(t, os.Rename(path+".new", path))
	}
	write("nameserver 192.0.2.1\nnameserver 192.0.2.1%lo\n")
	var log logbuffer.Buffer
	used := make(chan bool, 1)
	logger := slog.New(slog.NewTextHandler(&log, nil))
	f := (&server{client: upstream.Config{Logger: logger}, log: logger}).newForwarder(forwarding{ResolvConf: path})
	expect := func(want string) {
		t.Helper()
		var servers []upstream.Server
		for _, s := range f.clients[0].Status() {
			servers = append(servers, s.Server)
		}
		if got := fmt.Sprint(servers); got != want {
			t.Errorf("the servers are %s, want %s\n%s", got, want, log.String())
		}
	}
	expect("[192.0.2.1:53]")
	// A server that fails before it runs has logged the warnings, and one that runs has logged
	// them once.
	expectWarnings := func(want int) {
		t.Helper()
		if got := strings.Count(log.String(), "invalid nameserver skipped"); got != want {
			t.Errorf("%d warnings, want %d\n%s", got, want, log.String())
		}
	}
	expectWarnings(1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- f.run(ctx, func(_ *forwarder, c change) {
			if c != unchanged {
				used <- true
			}
		})
	}()
	write("nameserver 192.0.2.1\nsearch other.example\n")
	write("nameserver 192.0.2.2\nnameserver 192.0.2.1\n")
	<-used
	expect("[192.0.2.2:53 192.0.2.1:53]")
	expectWarnings(1)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	select {
	case <-used:
		t.Error("reported a change of the search domains only")
	default:
	}
}

// TestServer_ReplacedForwarder has the host's file change while its forwarder is replaced:
// the cached replies are dropped for a change of the present forwarder only.
func TestServer_ReplacedForwarder(t *testing.T) {
	server := newTestServer(t, dnsserver.Limits{})
	apply := func(c forwarding, wantTask bool) {
		t.Helper()
		if background := server.apply(c); (background != nil) != wantTask {
			t.Fatalf("a background task: %v, want %v", background != nil, wantTask)
		}
	}
	c := forwarding{ResolvConf: filepath.Join(t.TempDir(), "resolv.conf")}
	apply(c, true)
	apply(c, false) // nothing to replace
	previous := server.forwarder
	c.Upstreams = []upstream.Server{{Addr: netip.MustParseAddrPort("192.0.2.1:53")}}
	apply(c, true)
	put(server, "a.example.", server.cache.Clear())
	for _, tt := range []struct {
		name string
		of   *forwarder
		want int
	}{{"the previous forwarder", previous, 1}, {"the present forwarder", server.forwarder, 0}} {
		server.hostChanged(tt.of, serversChanged)
		if got := server.cache.Stats().Entries; got != tt.want {
			t.Errorf("after a change of %s the cache has %d replies, want %d", tt.name, got, tt.want)
		}
	}
}

// TestNewServer_CacheSize: the cache has the size of the limits.
func TestNewServer_CacheSize(t *testing.T) {
	limits := dnsserver.Limits{MaxMemory: 4 << 20}
	server := newTestServer(t, limits)
	generation := server.cache.Clear()
	want := limits.CacheConfig().MaxEntries
	for i := range want + 1 {
		put(server, fmt.Sprintf("%d.example.", i), generation)
	}
	if got := server.cache.Stats(); got.Entries+int(got.Evictions) != want+1 || got.Evictions == 0 {
		t.Errorf("got %+v, want at most %d replies", got, want)
	}
}

// newTestServer returns a server that forwards nothing.
func newTestServer(t *testing.T, limits dnsserver.Limits) *server {
	t.Helper()
	s := must.Get(newServer(dnsserver.Config{Domain: fqdn.Join(fqdn.Root, "cluster", "local"), Limits: limits},
		prometheus.NewRegistry(), slog.New(slog.DiscardHandler)))(t)
	return s
}

// put caches a reply to a query for a name.
func put(s *server, name string, generation cache.Generation) {
	query := new(dns.Msg).SetQuestion(name, dns.TypeA)
	wire, _ := fqdn.ParseName(name)
	question := cache.Question{Name: []byte(wire), Type: dns.TypeA, Class: dns.ClassINET}
	s.cache.Put(question, new(dns.Msg).SetRcode(query, dns.RcodeServerFailure), time.Now(), cache.PutOptions{Generation: generation})
}

// TestNames_Ready: a server without names is not ready, one with stale names is.
func TestNames_Ready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := must.Get(zone.New(zone.Config{Domain: "cluster.local."}))(t)
		status := cluster.Status{Resource: "services", Err: errors.New("connection refused")}
		s := names{zone: z, status: func() []cluster.Status { return []cluster.Status{status} }}
		check := func(want string) {
			t.Helper()
			if detail, err := s.ready(); fmt.Sprintf("%q %v", detail, err) != want {
				t.Errorf("%q %v, want %s", detail, err, want)
			}
		}
		check(`["services: not listed yet: connection refused"] the cluster's names are not loaded yet`)
		z.Update(1, func(e *zone.Edit) { e.SetStale(time.Now()) })
		time.Sleep(5 * time.Minute)
		check(`["names: from a snapshot, 5m0s old" "services: not listed yet: connection refused"] <nil>`)
		status = cluster.Status{Resource: "services", Listed: true, LastReply: time.Now()}
		z.Update(2, (*zone.Edit).SetLoaded)
		time.Sleep(3 * time.Second)
		check(`["names: loaded" "services: listed, last reply 3s ago"] <nil>`)
		s.status = nil
		check(`["names: loaded"] <nil>`)
	})
}
