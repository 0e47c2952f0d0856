// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

const nodeCacheHead = "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: NodeCacheConfiguration\n"

// nodeCache is the command nodecache as a process, in front of the command dns.
type nodeCache struct {
	dnsProcess
	cluster *dnsProcess
	host    string // the node's resolv.conf
}

// newNodeCache starts a cluster DNS with the manifests of examples, and the cache of a node
// with these search domains. The TXT record of every name is "node" on the upstream servers of
// the node, and "cluster" on those of the cluster DNS.
func newNodeCache(t *testing.T, domains string) *nodeCache {
	t.Helper()
	return newNodeCacheWith(t, domains, "", "")
}

// newNodeCacheWith is newNodeCache with more fields in both configurations.
func newNodeCacheWith(t *testing.T, domains, ofCluster, ofNode string) *nodeCache {
	t.Helper()
	dir := t.TempDir()
	n := &nodeCache{host: filepath.Join(dir, "resolv.conf")}
	n.cluster = newDNSProcess(t, fmt.Sprintf("upstreams: [%q]\n", upstreamSaying(t, "cluster"))+ofCluster)
	n.search(domains)
	n.dnsProcess = dnsProcess{t: t, config: filepath.Join(dir, "nodecache.yaml"), addr: freeAddr(t), http: freeAddr(t)}
	n.configure(fmt.Sprintf("clusterDNS: [%q]\nupstreams: [%q]\nresolvConf: %q\n", n.cluster.addr,
		upstreamSaying(t, "node"), n.host) + ofNode)
	n.signal, n.stop = startCommand(t, []string{"nodecache", "--config", n.config, "--listen", n.addr, "--http", n.http}, &n.log)
	n.ready()
	return n
}

func (n *nodeCache) configure(fields string) {
	n.cluster.t.Helper()
	must.Succeed(n.cluster.t, os.WriteFile(n.config, []byte(nodeCacheHead+fields), 0o600))
}

// search replaces the search domains of the node.
func (n *nodeCache) search(domains string) {
	n.cluster.t.Helper()
	must.Succeed(n.cluster.t, os.WriteFile(n.host+".new", []byte("nameserver 192.0.2.1\nsearch "+domains+"\n"), 0o600))
	must.Succeed(n.cluster.t, os.Rename(n.host+".new", n.host))
}

// TestNodeCache queries a cluster DNS through the cache of a node.
func TestNodeCache(t *testing.T) {
	n := newNodeCache(t, "corp.example")
	for _, tt := range []struct {
		name  string
		qtype uint16
		want  string
	}{
		{"payments.shop.svc.cluster.local.", dns.TypeA, "10.96.20.7"},
		{"absent.shop.svc.cluster.local.", dns.TypeA, "NXDOMAIN"},
		{"7.20.96.10.in-addr.arpa.", dns.TypePTR, "payments.shop.svc.cluster.local."},
		{"www.example.", dns.TypeTXT, `"node"`},
		{"payments.search.shop.cluster.local.ap.k8s.io.", dns.TypeA, "payments.shop.svc.cluster.local."},
		{"payments.shop.search.default.cluster.local.ap.k8s.io.", dns.TypeA, "payments.shop.svc.cluster.local."},
		{"intranet.search.shop.cluster.local.ap.k8s.io.", dns.TypeTXT, "intranet.corp.example."}, // found by the cluster DNS
		{"other.ap.k8s.io.", dns.TypeA, "NXDOMAIN"},
	} {
		n.says(tt.name, tt.qtype, tt.want)
	}

	// The search domains of the node change, for running pods too.
	n.search("new.example")
	n.eventually("the new domain", func() bool {
		return n.ask("intranet.search.shop.cluster.local.ap.k8s.io.", dns.TypeTXT) == "intranet.new.example."
	})

	// The cluster DNS stops: cached names are answered, others get SERVFAIL.
	n.cluster.stop()
	if got := n.ask("payments.shop.svc.cluster.local.", dns.TypeA); got != "10.96.20.7" {
		t.Errorf("a cached name: %s", got)
	}
	for _, name := range []string{"kubernetes.default.svc.cluster.local.", "kubernetes.search.default.cluster.local.ap.k8s.io."} {
		for range 2 {
			if got := n.ask(name, dns.TypeA); got != "SERVFAIL" {
				t.Errorf("%s, which is not cached: %s", name, got)
			}
		}
	}
	n.eventually("readiness to end", func() bool {
		r, err := http.Get("http://" + n.http + "/readyz")
		if err != nil {
			return false
		}
		r.Body.Close()
		n.ask("a.svc.cluster.local.", dns.TypeA)
		return r.StatusCode == http.StatusServiceUnavailable
	})
	if got := get(t, n.http, "/readyz"); !strings.HasPrefix(got, "no cluster DNS server answers: ") ||
		!strings.Contains(got, "\ncluster DNS "+n.cluster.addr+": does not answer") {
		t.Errorf("/readyz says %s", got)
	}
	n.says("www.other.example.", dns.TypeTXT, `"node"`)
}

// TestNodeCache_Option: the cluster DNS expands search lists for a node that is in its networks.
// Otherwise the cache expands them, with the same result.
func TestNodeCache_Option(t *testing.T) {
	for _, tt := range []struct{ name, cluster, want string }{
		{"the node is in the networks", "autopathNetworks: [192.0.2.0/24, 127.0.0.0/8]\n", "expanded"},
		{"the node is not in the networks", "autopathNetworks: [192.0.2.0/24]\n", "silent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNodeCacheWith(t, "corp.example", tt.cluster, "")
			for _, p := range []*dnsProcess{&n.dnsProcess, n.cluster} { // names are not restricted to networks
				p.says("payments.search.shop.cluster.local.ap.k8s.io.", dns.TypeA, "payments.shop.svc.cluster.local.")
			}
			n.says("intranet.search.shop.cluster.local.ap.k8s.io.", dns.TypeTXT, "intranet.corp.example.")
			for _, result := range []string{"expanded", "silent"} {
				line := fmt.Sprintf("dnsconfigurer_dns_autopath_sent_total{result=%q} 0\n", result)
				if none := strings.Contains(get(t, n.http, "/metrics"), line); none == (result == tt.want) {
					t.Errorf("want lists sent to be %s alone", tt.want)
				}
			}
		})
	}
}

// TestNodeCache_Reload changes the cluster DNS in the file, and fields that take effect after a
// restart: names of the running cluster domain are still forwarded to the cluster DNS.
func TestNodeCache_Reload(t *testing.T) {
	n := newNodeCache(t, "corp.example")
	other := upstreamSaying(t, "other")
	reread := func(fields string, words ...string) {
		t.Helper()
		n.reread(func() { n.configure(fields) }, words...)
	}
	reread(fmt.Sprintf("clusterDNS: [%q]\nupstreams: [%q]\nclusterDomain: new.example\n", other, upstreamSaying(t, "node")),
		"configuration applied", "fields=[clusterDomain]")
	n.says("a.cluster.local.", dns.TypeTXT, `"other"`)
	// It does not support the option: the cache expands the list, and the first name exists.
	n.says("a.search.shop.cluster.local.ap.k8s.io.", dns.TypeTXT, "a.shop.svc.cluster.local.")
	reread("upstreams: []\n", "keeping the previous one", "clusterDNS: missing")
	n.says("b.cluster.local.", dns.TypeTXT, `"other"`)
}

// TestNodeCache_DeadDomain: the name after a domain without replies is found by the first
// query, although the expansion takes all the time that it may take. The node cache waits 200 ms
// longer for the cluster DNS: a busy machine may need more for some names.
func TestNodeCache_DeadDomain(t *testing.T) {
	n := newNodeCache(t, deadDomain)
	names := 0
	n.eventually("a name that its first query finds", func() bool {
		names++
		name := fmt.Sprintf("intranet%d.", names)
		got := n.ask(name+"search.shop.cluster.local.ap.k8s.io.", dns.TypeTXT)
		if got != name && got != "SERVFAIL" {
			t.Fatalf("%s leads to %s\n%s", name, got, n.log.String())
		}
		return got == name
	})
}

// TestNodeCache_Metrics is like TestDNS_Metrics. After SIGTERM the log says that the node cache ends.
func TestNodeCache_Metrics(t *testing.T) {
	n := newNodeCacheWith(t, "corp.example", "", "maxQueries: 1000\n")
	n.ask("payments.search.shop.cluster.local.ap.k8s.io.", dns.TypeA)
	n.ask("a.example.", dns.TypeTXT)
	checkMetrics(t, get(t, n.http, "/metrics"), "testdata/nodecache.metrics", "../../docs/dns.md")
	checkSlots(t, get(t, n.http, "/metrics"), 1000)
	n.stop()
	if !strings.Contains(n.log.String(), `msg="shutting down"`) {
		t.Errorf("%s", n.log.String())
	}
}

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
