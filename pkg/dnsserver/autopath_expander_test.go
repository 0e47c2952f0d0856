// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/tools/txtar"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// line is the way from a node cache to the cluster DNS.
type line struct {
	server *Server // the cluster DNS
	asked  atomic.Int64
	dead   atomic.Bool
}

func (l *line) exchange(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
	l.asked.Add(1)
	if l.dead.Load() {
		return nil, errors.New("nobody is there")
	}
	packet, err := q.Pack()
	if err != nil {
		return nil, err
	}
	reply := new(dns.Msg)
	return reply, reply.Unpack(l.server.handle(ctx, packet, overTCP, netip.MustParseAddr("10.0.0.1")))
}

// nodeCache returns a server without a zone, in front of one with a cluster, and the
// line between them. Both know the same hosts.
func nodeCache(t testing.TB, cluster string, upstream Exchange, hosts []fqdn.Name, allowed []netip.Prefix) (*Server, *line) {
	t.Helper()
	to := &line{server: newServer(t, cluster, Config{Upstream: upstream, Autopath: Autopath{HostSuffixes: hosts, Allowed: allowed}})}
	store, err := cache.New(cache.Config{})
	if err != nil {
		t.Fatal(err)
	}
	domain := mustName(t, "cluster.local")
	s, err := New(Config{
		Domain: domain, TTL: 5, Cache: store, Upstream: upstream, Stubs: []Stub{{Zone: domain, Exchange: to.exchange}},
		Autopath: Autopath{HostSuffixes: hosts, Expander: to.exchange},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, to
}

// TestExpander has the stories of autopath once more, through a node cache: by a cluster
// DNS that expands, and by one that does not, whose part the node cache takes. The
// answers are those of the cluster DNS.
func TestExpander(t *testing.T) {
	for _, file := range []string{"autopath", "autopath-failures"} {
		for _, way := range []struct {
			what    string
			allowed []netip.Prefix
		}{{"by the cluster DNS", nil}, {"by the node cache", []netip.Prefix{}}} {
			t.Run(file+" "+way.what, func(t *testing.T) {
				story, err := txtar.ParseFile(filepath.Join("testdata", file+".txtar"))
				if err != nil {
					t.Fatal(err)
				}
				parts := map[string]string{}
				for _, f := range story.Files {
					parts[f.Name] = string(f.Data)
				}
				var hosts []fqdn.Name
				for _, h := range strings.Fields(parts["hosts"]) {
					hosts = append(hosts, mustName(t, h))
				}
				upstream := parseRecords(t, parts["upstream"]).exchange
				asked := 0
				for _, f := range story.Files {
					name, qtype, ok := strings.Cut(f.Name, " ")
					if !ok || !strings.Contains(name, ".search.") {
						continue
					}
					asked++
					s, _ := nodeCache(t, parts["cluster"], upstream, hosts, way.allowed)
					q := new(dns.Msg).SetQuestion(name, dns.StringToType[qtype])
					for range 2 { // the second time from the cache
						if got, want := answered(text(from(t, s, pod(), q))), answered(string(f.Data)); got != want {
							t.Errorf("%s\n got:\n%s\nwant:\n%s", f.Name, got, want)
						}
					}
				}
				if asked < 5 {
					t.Errorf("the story has %d questions", asked)
				}
			})
		}
	}
}

// answered is the rcode and the answer of a reply in text, without TTLs: how long a
// denial is good for, the two servers see differently.
func answered(reply string) string {
	var b strings.Builder
	for i, line := range strings.Split(strings.TrimSpace(reply), "\n") {
		words := strings.Fields(line)
		switch {
		case i == 0:
			b.WriteString(words[0])
		case words[0] != "authority:" && words[0] != "additional:":
			fmt.Fprintf(&b, "\n%s %s", strings.ToLower(words[0]), strings.Join(words[2:], " "))
		}
	}
	return b.String()
}

// TestExpanderAsks counts what a name costs between the servers: one query, none while
// the answer is kept; a cluster DNS that does not expand is asked to no more than twice a
// minute.
func TestExpanderAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const cluster = "namespace shop\nservice shop/web 10.96.0.7\nloaded"
		upstream := parseRecords(t, "www.example.net. 300 IN A 192.0.2.1").exchange
		s, to := nodeCache(t, cluster, upstream, nil, nil)
		ask := func(name string) {
			from(t, s, pod(), new(dns.Msg).SetQuestion(name+".search.shop.cluster.local.ap.k8s.io.", dns.TypeA))
		}
		for i, step := range []struct {
			name string
			want int64
		}{{"web", 1}, {"web", 1}, {"www.example.net", 2}, {"nothing.example", 3}, {"nothing.example", 3}} {
			if ask(step.name); to.asked.Load() != step.want {
				t.Errorf("step %d: %d queries, want %d", i, to.asked.Load(), step.want)
			}
		}
		s, to = nodeCache(t, cluster, upstream, nil, []netip.Prefix{})
		for range 10 {
			ask("web")
			time.Sleep(6 * time.Second) // longer than anything is kept
		}
		if got := to.asked.Load(); got > 2+10*2 { // the option twice, and both families of one candidate
			t.Errorf("%d queries in a minute", got)
		}
	})
}

// TestExpanderGone: without the cluster DNS the last answers are given, and what is not
// known is not denied.
func TestExpanderGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, to := nodeCache(t, "namespace shop\nservice shop/web 10.96.0.7\nloaded", parseRecords(t, "").exchange, nil, nil)
		ask := func(name string) string {
			return answered(text(from(t, s, pod(), new(dns.Msg).SetQuestion(name+".search.shop.cluster.local.ap.k8s.io.", dns.TypeA))))
		}
		fresh := ask("web")
		to.dead.Store(true)
		time.Sleep(time.Minute)
		if got := ask("web"); got != fresh {
			t.Errorf("stale: %s, want %s", got, fresh)
		}
		if got := ask("other"); got != "SERVFAIL" {
			t.Errorf("not known: %s", got)
		}
		to.dead.Store(false)
		time.Sleep(time.Minute)
		if got := ask("web"); got != fresh {
			t.Errorf("after that: %s, want %s", got, fresh)
		}
	})
}

// TestExpanderSuffixes: a host's search list that changes counts at once, for pods that
// run, and the answers of the old one are forgotten.
func TestExpanderSuffixes(t *testing.T) {
	upstream := parseRecords(t, "git.old.example. 300 IN A 192.0.2.1\ngit.new.example. 300 IN A 192.0.2.2").exchange
	s, to := nodeCache(t, "namespace shop\nloaded", upstream, []fqdn.Name{mustName(t, "old.example")}, nil)
	ask := func() string {
		return answered(text(from(t, s, pod(), new(dns.Msg).SetQuestion("git.search.shop.cluster.local.ap.k8s.io.", dns.TypeA))))
	}
	if got := ask(); !strings.HasSuffix(got, " A 192.0.2.1") {
		t.Errorf("before: %s", got)
	}
	s.Use(Forwarding{Upstream: upstream, Stubs: []Stub{{mustName(t, "cluster.local"), to.exchange}}, HostSuffixes: []fqdn.Name{mustName(t, "new.example")}})
	if got := ask(); !strings.HasSuffix(got, " A 192.0.2.2") {
		t.Errorf("after: %s", got)
	}
}

// TestExpanderLong: a search list of any length arrives, whole, and in one query.
func TestExpanderLong(t *testing.T) {
	var hosts []fqdn.Name
	for i := range MaxHostSuffixes {
		hosts = append(hosts, mustName(t, fmt.Sprintf("%s%d.example", strings.Repeat("x", 50), i)))
	}
	last := hosts[len(hosts)-1]
	upstream := parseRecords(t, "git."+last.String()+" 300 IN A 192.0.2.1").exchange
	s, to := nodeCache(t, "namespace shop\nloaded", upstream, hosts, nil)
	got := answered(text(from(t, s, pod(), new(dns.Msg).SetQuestion("git.search.shop.cluster.local.ap.k8s.io.", dns.TypeA))))
	if !strings.HasSuffix(got, " A 192.0.2.1") || to.asked.Load() != 1 {
		t.Errorf("%s\nafter %d queries", got, to.asked.Load())
	}
	if value, err := autopath.Encode(hosts); err != nil || len(value) < 1700 {
		t.Errorf("the list has %d octets, %v", len(value), err)
	}
}

// TestExpanderOthers: ordinary queries for names of the cluster and of others are
// forwarded, and the cluster's reverse names are whoever's the stubs say.
func TestExpanderOthers(t *testing.T) {
	upstream := parseRecords(t, "www.example.net. 300 IN A 192.0.2.1").exchange
	s, to := nodeCache(t, "namespace shop\nservice shop/web 10.96.0.7\nloaded", upstream, nil, nil)
	for _, tt := range []struct {
		name, want string
		asked      int64
	}{
		{"web.shop.svc.cluster.local.", "NOERROR\nweb.shop.svc.cluster.local. IN A 10.96.0.7", 1},
		{"none.shop.svc.cluster.local.", "NXDOMAIN", 2},
		{"www.example.net.", "NOERROR\nwww.example.net. IN A 192.0.2.1", 2},
		{"web.shop.svc.cluster.local.", "NOERROR\nweb.shop.svc.cluster.local. IN A 10.96.0.7", 2},
		{"nothing.ap.k8s.io.", "NXDOMAIN", 2},
	} {
		got := answered(text(from(t, s, pod(), new(dns.Msg).SetQuestion(tt.name, dns.TypeA))))
		if got != tt.want || to.asked.Load() != tt.asked {
			t.Errorf("%s: %s after %d queries, want %s after %d", tt.name, got, to.asked.Load(), tt.want, tt.asked)
		}
	}
}
