// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/dnsnode"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// TestServer_Manifests runs the server in the test's process. It warns if it has no reverse networks.
func TestServer_Manifests(t *testing.T) {
	const warning = `level=WARN msg="reverse names without an address of the cluster are forwarded: set reverseCIDRs to the ` +
		`networks of Services and pods" services=[10.96.0.0/16] endpoints=[10.244.0.0/16]`
	serveManifests(t, "", func(log string) bool { return strings.Contains(log, warning) })
	log := serveManifests(t, "reverseCIDRs: [10.96.0.0/12]\n", func(string) bool { return true })
	if strings.Contains(log, "reverseCIDRs") {
		t.Errorf("a warning with reverseCIDRs:\n%s", log)
	}
}

// serveManifests runs the server with further fields until it answers and its log is complete, and
// returns the log.
func serveManifests(t *testing.T, fields string, isComplete func(log string) bool) string {
	t.Helper()
	addr := process.Loopback(t, 1)[0]
	dir := t.TempDir()
	path := filepath.Join(dir, "dns.yaml")
	for file, text := range map[string]string{
		path: "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: DNSConfiguration\n" +
			"listen: ['" + addr + "']\nmanifests: [" + dir + "/m]\nresolvConf: ''\n" + fields,
		filepath.Join(dir, "m/s.yaml"): "apiVersion: v1\nkind: Service\n" +
			"metadata: {namespace: shop, name: web}\nspec: {clusterIP: 10.96.0.1}\n",
		filepath.Join(dir, "m/e.yaml"): "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n" +
			"metadata: {namespace: shop, name: web-1, labels: {kubernetes.io/service-name: web}}\nendpoints: [{addresses: [10.244.1.2]}]\n",
	} {
		must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	}
	source := dnsnode.ClusterDNSKind().FromFile(path)
	c := must.Get(source.Load())(t)
	var out logbuffer.Buffer
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	p := daemon.Process{Metrics: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(&out, nil))}
	go func() { ended <- dnsnode.RunClusterDNS(ctx, p, source, c) }()
	client := dns.Client{Timeout: time.Second}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		reply, _, err := client.Exchange(new(dns.Msg).SetQuestion("web.shop.svc.cluster.local.", dns.TypeA), addr)
		if err == nil && len(reply.Answer) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no address: %v, %v", reply, err)
		}
	}
	poll.Until(t, "the log", func() bool { return isComplete(out.String()) }, &out)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return out.String()
}

// replica is a server process.
type replica struct {
	process.Process
	dns, http string
}

// TestReplicas_Loop runs two servers of one cluster whose upstream server is the address of both. A
// balancer sends all queries there to the second replica, so that the first one never receives its
// own probe. Both detect the loop, log its address and show it in their metrics. Then they refuse
// names outside the cluster, and answer those of the cluster.
func TestReplicas_Loop(t *testing.T) {
	api := kubeapi.New()
	api.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID("7f8f4a4e-7c5f-4b6e-9a55-0c1f6f1a2b3c")}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.9", ClusterIPs: []string{"10.96.0.9"}}})
	url := must.Get(api.Start())(t)
	t.Cleanup(api.Stop)
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	must.Succeed(t, os.WriteFile(kubeconfig, []byte(kubeapi.Kubeconfig(url)), 0o600))
	program, addrs := process.Build(t), process.Loopback(t, 4)
	replicas := []*replica{{dns: addrs[0], http: addrs[1]}, {dns: addrs[2], http: addrs[3]}}
	service := balance(t, replicas[1].dns)
	for i, r := range replicas {
		r.Program, r.LogFile = program, filepath.Join(dir, fmt.Sprintf("log-%d", i))
		r.Args = []string{"dns", "--kubeconfig", kubeconfig, "--listen", r.dns, "--http", r.http, "--upstream", service}
		must.Succeed(t, r.Start())
		t.Cleanup(func() {
			if err := r.Stop(); err != nil {
				t.Errorf("replica %d: %v\n%s", i, err, r.Log())
			}
		})
	}
	looping := fmt.Sprintf(`dnsconfigurer_dns_upstream_looping{server=%q,zone="."} 1`, service)
	for i, r := range replicas {
		// A probe that the machine has lost is sent again after 30 s.
		r.eventually(t, i, "the loop", func() bool {
			r.rcode("outside.example.")
			return strings.Contains(r.metrics(), looping)
		})
		if log := r.Log(); !strings.Contains(log, "forwarding loop") || !strings.Contains(log, service) {
			t.Errorf("replica %d does not log the loop through %s:\n%s", i, service, log)
		}
		r.eventually(t, i, "a name of the cluster", func() bool { return r.rcode("web.default.svc.cluster.local.") == dns.RcodeSuccess })
		refusals := `dnsconfigurer_dns_refusals_total{budget="plain",reason="loop"} `
		r.eventually(t, i, "a refused query", func() bool {
			return r.rcode("new.example.") == dns.RcodeServerFailure && !strings.Contains(r.metrics(), refusals+"0\n")
		})
	}
}

func (r *replica) eventually(t *testing.T, i int, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if err := r.Alive(); err != nil || time.Now().After(deadline) {
			t.Fatalf("replica %d: waiting for %s: %v\n%s\n%s", i, what, err, r.Log(), r.metrics())
		}
	}
}

// rcode returns the rcode of the reply to a query, or -1 without one.
func (r *replica) rcode(name string) int {
	c := dns.Client{Timeout: 10 * time.Second}
	m, _, err := c.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), r.dns)
	if err != nil {
		return -1
	}
	return m.Rcode
}

func (r *replica) metrics() string { return process.Page(r.http, "/metrics") }

// balance forwards the queries to a UDP address to a server. It returns the address.
func balance(t *testing.T, server string) string {
	t.Helper()
	conn := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	balancer := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		c := dns.Client{Timeout: 10 * time.Second}
		if m, _, err := c.Exchange(q, server); err == nil {
			_ = w.WriteMsg(m)
		}
	})}
	ended := make(chan error, 1)
	go func() { ended <- balancer.ActivateAndServe() }()
	t.Cleanup(func() {
		conn.Close()
		<-ended
	})
	return conn.LocalAddr().String()
}
