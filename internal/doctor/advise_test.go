// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/libc"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// resolvConf is the file of a pod with ClusterFirst in the namespace shop, on a node with a search domain.
const resolvConf = "nameserver 127.0.0.1\nsearch shop.svc.cluster.local svc.cluster.local cluster.local corp.example\noptions ndots:5\n"

// podAddr is the address of the pods.
var podAddr = netip.MustParseAddr("127.1.0.7")

// node is a node cache behind which the names of exists have an address.
type node struct {
	*dnsserver.Server
	addr string
}

func exists(name string) bool {
	return name == "web.shop.svc.cluster.local." || name == "web.other.svc.cluster.local." || name == "example.com." ||
		strings.HasSuffix(name, ".example.com.") && !strings.HasPrefix(name, "gone")
}

func startNode(t *testing.T, statistics dnsserver.ClientStatistics) node {
	t.Helper()
	answer := func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
		r, h := new(dns.Msg).SetReply(q), dns.RR_Header{Class: dns.ClassINET, Ttl: 60}
		h.Name, h.Rrtype = q.Question[0].Name, q.Question[0].Qtype
		soa := &dns.SOA{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 60}, Ns: ".", Mbox: ".", Minttl: 60}
		switch {
		case !exists(h.Name):
			r.Rcode, r.Ns = dns.RcodeNameError, []dns.RR{soa}
		case h.Rrtype == dns.TypeA:
			r.Answer = []dns.RR{&dns.A{Hdr: h, A: net.IPv4(192, 0, 2, 1)}}
		default:
			r.Ns = []dns.RR{soa}
		}
		return r, nil
	}
	domain, corp := fqdn.Join(fqdn.Root, "cluster", "local"), fqdn.Join(fqdn.Root, "corp", "example")
	s := must.Get(dnsserver.New(dnsserver.Config{Domain: domain, Cache: cache.New(cache.Config{}), Statistics: statistics}))(t)
	s.SetForwarding(dnsserver.Forwarding{
		Upstream: answer, Stubs: []dnsserver.Stub{{Zone: domain, Exchange: answer, Cluster: true}}, HostSuffixes: []fqdn.Name{corp},
	})
	sockets := must.Get(dnsserver.Listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}))(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx, sockets) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return node{s, sockets.Addrs()[0].String()}
}

// lookUp looks names up with a library, from the address of the pod.
func (n node) lookUp(t *testing.T, library libc.Library, file string, names ...string) {
	t.Helper()
	exchange := func(network string) libc.Exchange {
		return func(ctx context.Context, _ netip.Addr, q *dns.Msg) (*dns.Msg, error) {
			dialer := &net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(podAddr, 0))}
			r, _, err := (&dns.Client{Net: network, Dialer: dialer}).ExchangeContext(ctx, q, n.addr)
			return r, err
		}
	}
	s := libc.Simulator{Library: library, Resolver: library.Read(file), Network: libc.Network{UDP: exchange("udp"), TCP: exchange("udp")}}
	for _, name := range names {
		s.Lookup(t.Context(), name, libc.Both)
	}
}

// newPod returns a pod of the Deployment shop/web that has run for an hour.
func newPod(config *corev1.PodDNSConfig) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-5d9c7-x", Labels: map[string]string{"pod-template-hash": "5d9c7"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-5d9c7", Controller: ptr.To(true)}},
		},
		Spec:   corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst, DNSConfig: config},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: podAddr.String()}}},
	}
}

// advice returns what is advised to the pods for the lookups, as if they had taken an hour.
func (n node) advice(t *testing.T, pods ...corev1.Pod) v1alpha1.WorkloadAdvice {
	t.Helper()
	r := n.Clients()
	r.Until = r.Since.Add(time.Hour)
	result := doctor.Advise([]doctor.ClientSource{{Address: netip.MustParseAddr("127.0.0.1"), Report: r}}, pods)
	if len(result.Workloads) != 1 {
		t.Fatalf("got %+v, want one workload", result)
	}
	return result.Workloads[0]
}

func repeat(n int, names ...string) (list []string) {
	for range n {
		list = append(list, names...)
	}
	return list
}

func numbered(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("n%d.crawl.example.com", i))
	}
	return names
}

// TestAdvise_Saving makes the change that is advised, and measures what it saves, with each library.
func TestAdvise_Saving(t *testing.T) {
	smallNdots := strings.Replace(resolvConf, "ndots:5", "ndots:2", 1)
	for _, tt := range []struct {
		name  string
		names []string
		code  string // of the first cure
		file  string // after the change
		after []string
	}{
		{"names outside the cluster", repeat(40, "api.example.com", "cdn.api.example.com"), "ndots", smallNdots,
			repeat(40, "api.example.com", "cdn.api.example.com")},
		{"a name with one dot", repeat(40, "example.com"), "final-dot", resolvConf, repeat(40, "example.com.")},
		{"a name that never exists", repeat(40, "gone.example.com"), "absent-name", resolvConf, nil},
		{"a Service that does not exist", repeat(40, "redis"), "absent-name", resolvConf, nil},
		{"a crawler", numbered(150), "ndots", smallNdots, numbered(150)},
		{"a Service of another namespace", repeat(60, "web.other"), "full-name", resolvConf, repeat(60, "web.other.svc.cluster.local.")},
		{"names outside the cluster, and one that never exists", repeat(30, "api.example.com", "gone.example.com", "api.example.com"),
			"ndots", smallNdots, repeat(30, "api.example.com", "gone.example.com", "api.example.com")},
		{"own Services and names outside the cluster", repeat(30, "web", "web", "web", "api.example.com"), "ndots", smallNdots,
			repeat(30, "web", "web", "web", "api.example.com")},
	} {
		for _, library := range libc.Libraries() {
			t.Run(tt.name+"/"+string(library), func(t *testing.T) {
				t.Parallel()
				n := startNode(t, dnsserver.CountClients)
				n.lookUp(t, library, resolvConf, tt.names...)
				before := n.advice(t, newPod(nil))
				if len(before.Cures) == 0 || before.Cures[0].Code != tt.code {
					t.Fatalf("got %+v, want the cure %s first", before, tt.code)
				}
				n = startNode(t, dnsserver.CountClients)
				n.lookUp(t, library, tt.file, tt.after...)
				n.lookUp(t, library, tt.file, "web") // one query at least
				measured := int64(before.QueriesPerDay) - int64(n.advice(t, newPod(nil)).QueriesPerDay)
				estimated := int64(before.Cures[0].SavesPerDay)
				if library != libc.Glibc && library != libc.Go && tt.code == "ndots" {
					// musl does not search for names with ndots dots, even if they do not exist as they are; the counts
					// do not show which library a pod has.
					estimated = max(estimated, min(measured, estimated+int64(before.SavesPerDay)))
				}
				if diff := max(estimated-measured, measured-estimated); diff > measured/10+2*24 {
					t.Errorf("%d queries a day, saving %d; measured %d", before.QueriesPerDay, estimated, measured)
				}
			})
		}
	}
}

// TestAdvise_Nothing: what a change would not save is not advised.
func TestAdvise_Nothing(t *testing.T) {
	n := startNode(t, dnsserver.CountClients)
	n.lookUp(t, libc.Glibc, resolvConf, repeat(40, "web", "api.example.com.")...)
	if a := n.advice(t, newPod(nil)); len(a.Cures) > 0 {
		t.Errorf("got %+v, want no advice", a)
	}
}

func TestAdvise_Patch(t *testing.T) {
	n := startNode(t, dnsserver.CountClients)
	n.lookUp(t, libc.Glibc, resolvConf, numbered(40)...)
	options := func(list ...string) *corev1.PodDNSConfig {
		c := &corev1.PodDNSConfig{}
		for _, o := range list {
			name, value, _ := strings.Cut(o, ":")
			c.Options = append(c.Options, corev1.PodDNSConfigOption{Name: name, Value: &value})
		}
		return c
	}
	patch := func(options string) string {
		return `kubectl patch deployment web -n shop -p '{"spec":{"template":{"spec":{"dnsConfig":{"options":[` + options + `]}}}}}'`
	}
	const ndots = `{"name":"ndots","value":"2"}`
	for _, tt := range []struct {
		config *corev1.PodDNSConfig
		want   string // "": ndots is not advised
	}{
		{nil, patch(ndots)},
		{options("timeout:1", "ndots:5"), patch(`{"name":"timeout","value":"1"},` + ndots)},
		{options("x:it's"), patch(`{"name":"x","value":"it'\''s"},` + ndots)},
		{options("ndots:2"), ""},
		{options("ndots:1"), ""},
	} {
		got := ""
		for _, c := range n.advice(t, newPod(tt.config)).Cures {
			if c.Code == "ndots" {
				got = c.Patch
			}
		}
		if got != tt.want {
			t.Errorf("%+v: got %s, want %s", tt.config, got, tt.want)
		}
	}
}

// TestAdvise_Rollout: while a rollout sets ndots, the old pods still waste queries, and the newest one decides what is
// advised.
func TestAdvise_Rollout(t *testing.T) {
	n := startNode(t, dnsserver.CountClients)
	n.lookUp(t, libc.Glibc, resolvConf, numbered(40)...)
	r := n.Clients()
	r.Until = r.Since.Add(time.Hour)
	old, changed := newPod(nil), newPod(&corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: ptr.To("2")}}})
	changed.Name, changed.Status.PodIPs = "web-5d9c7-y", []corev1.PodIP{{IP: "127.1.0.8"}}
	changed.CreationTimestamp = metav1.Time{Time: r.Since.Add(time.Minute)}
	r.Clients = append(r.Clients, dnsserver.Client{Address: netip.MustParseAddr("127.1.0.8")})
	for range 2 { // in both orders
		slices.Reverse(r.Clients)
		w := doctor.Advise([]doctor.ClientSource{{Report: r}}, []corev1.Pod{old, changed}).Workloads
		if len(w) != 1 || w[0].Pods != 2 || len(w[0].Cures) > 0 {
			t.Errorf("got %+v, want no advice", w)
		}
	}
}

// TestAdvise_HostileOwner: a tenant chooses the name of a pod's owner, and an operator may run the command.
func TestAdvise_HostileOwner(t *testing.T) {
	n := startNode(t, dnsserver.CountClients)
	n.lookUp(t, libc.Glibc, resolvConf, numbered(40)...)
	p := newPod(nil)
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "web; reboot", Controller: ptr.To(true)}}
	if a := n.advice(t, p); a.Name != "web; reboot" || len(a.Cures) == 0 || a.Cures[0].Patch != "" {
		t.Errorf("got %+v, want advice without a command", a)
	}
}

// TestAdvise_Names: the names that do not exist are listed if the servers know them, the most frequent first.
func TestAdvise_Names(t *testing.T) {
	n := startNode(t, dnsserver.CountNames)
	n.lookUp(t, libc.Musl, resolvConf, repeat(20, "gone.example.com", "gone2.example.com", "gone2.example.com", "api.example.com")...)
	a := n.advice(t, newPod(nil))
	if !slices.ContainsFunc(a.Cures, func(c v1alpha1.Cure) bool {
		return c.Code == "absent-name" && strings.HasSuffix(c.Message, ": gone2.example.com., gone.example.com.")
	}) {
		t.Errorf("got %+v", a)
	}
}

// TestAdvise_Workloads joins the counts of several servers with the pods.
func TestAdvise_Workloads(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	client := func(addr string, queries uint64) dnsserver.Client {
		return dnsserver.Client{Address: netip.MustParseAddr(addr), ClientCounts: dnsserver.ClientCounts{Queries: queries}}
	}
	report := func(hours int, clients ...dnsserver.Client) dnsserver.ClientReport {
		return dnsserver.ClientReport{Since: begin, Until: begin.Add(time.Duration(hours) * time.Hour), Clients: clients}
	}
	pod := func(name, addr string, change func(*corev1.Pod)) corev1.Pod {
		p := newPod(nil)
		p.Name, p.OwnerReferences, p.Status.PodIPs = name, nil, []corev1.PodIP{{IP: addr}}
		change(&p)
		return p
	}
	owned := func(kind, name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: ptr.To(true)}}
		}
	}
	sources := []doctor.ClientSource{
		{Address: netip.MustParseAddr("10.0.0.1"),
			Report: report(12, client("10.244.1.1", 100), client("10.244.1.2", 10), client("10.244.1.9", 7))},
		{Address: netip.MustParseAddr("10.0.0.2"),
			Report: report(24, client("10.244.2.1", 100), client("fd00::1", 5), client("192.0.2.1", 9))},
		{Address: netip.MustParseAddr("10.244.3.3"), Report: report(24, client("10.0.0.1", 1000), client("10.244.3.3", 50))},
	}
	pods := []corev1.Pod{
		pod("web-5d9c7-a", "10.244.1.1", owned("ReplicaSet", "web-5d9c7")), // in two places: 200 and 100 a day
		pod("web-5d9c7-b", "10.244.2.1", owned("ReplicaSet", "web-5d9c7")),
		pod("young", "10.244.1.2", func(p *corev1.Pod) { p.Status.StartTime = &metav1.Time{Time: begin.Add(11 * time.Hour)} }),
		pod("done", "10.244.1.9", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		pod("node", "192.0.2.1", func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
		pod("db-0", "fd00::1", owned("StatefulSet", "db")),
		pod("dns", "10.244.3.3", owned("ReplicaSet", "dns-1")), // a server: its queries are those of others
	}
	sources[1].Report.Others.Queries = 1000
	var got []string
	result := doctor.Advise(sources, pods)
	if result.QueriesPerDay != 545 || result.OthersPerDay != 1000+9+2*7 {
		t.Errorf("%d queries of pods, %d of others", result.QueriesPerDay, result.OthersPerDay)
	}
	for _, w := range result.Workloads {
		got = append(got, fmt.Sprintf("%s %s, %d pods: %d", w.Kind, w.Name, w.Pods, w.QueriesPerDay))
	}
	want := []string{"Deployment web, 2 pods: 300", "Pod young, 1 pods: 240", "StatefulSet db, 1 pods: 5"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
