// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// series lists the series of a registry, one per line, without the common prefix of the
// names. The value of a histogram is its count; servers are replaced by their names.
func series(t *testing.T, r *prometheus.Registry, servers map[string]*fake) string {
	t.Helper()
	families := must.Get(r.Gather())(t)
	serverNames := map[string]string{}
	for name, s := range servers {
		serverNames[s.String()] = name
	}
	var lines []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			words := []string{strings.TrimPrefix(f.GetName(), "dnsconfigurer_dns_upstream_")}
			for _, l := range m.GetLabel() { // in order of their names
				if l.GetName() == "server" {
					words = append(words, serverNames[l.GetValue()])
				} else {
					words = append(words, l.GetValue())
				}
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			lines = append(lines, fmt.Sprint(strings.Join(words, " "), " = ", value))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// Every outcome, and the series after servers are removed.
func TestMetrics_Series(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics := upstream.NewMetrics(registry)
	cut := serve(t, func(network string, query *dns.Msg) [][]byte {
		if network == "udp" {
			return [][]byte{truncated(t, query)}
		}
		return [][]byte{pack(t, reply(query, dns.RcodeServerFailure))}
	})
	secure := &fake{Server: upstream.Server{Addr: serveStream(t, func(conn net.Conn) { conn.Close() }).Addr, TLS: true}}
	servers := map[string]*fake{
		"cut": cut, "silent": serve(t, silent), "secure": secure,
		"refuses": serve(t, always(t, dns.RcodeRefused)), "odd": serve(t, always(t, dns.RcodeNotImplemented)),
		"nxdomain": serve(t, always(t, dns.RcodeNameError)),
	}
	ofStub := []*fake{cut, secure, servers["refuses"], servers["odd"], servers["nxdomain"]}
	stub := newClient(t, upstream.Config{Metrics: metrics, Zone: "corp.example"}, ofStub...)
	stopStub := run(t, stub)
	idle := newClient(t, upstream.Config{Metrics: metrics}, servers["nxdomain"])
	dark := newClient(t, upstream.Config{Metrics: metrics, Zone: "dark.example", TryTimeout: short}, servers["silent"])
	if m, err := dark.Exchange(t.Context(), ask("a.dark.example.")); err == nil {
		t.Fatalf("got %v", m)
	}
	for _, s := range ofStub { // one client would query the next server when one is slow
		addresses(t, newClient(t, upstream.Config{Metrics: metrics, Zone: "corp.example"}, s), "a.corp.example.")
	}
	if got := addresses(t, idle, "a.corp.example."); got != "NXDOMAIN" {
		t.Fatalf("got %s", got)
	}
	expect := func(want string) {
		t.Helper()
		if diff := cmp.Diff(want, series(t, registry, servers)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	expect(`attempt_duration_seconds cut corp.example. = 2
attempt_duration_seconds nxdomain . = 1
attempt_duration_seconds nxdomain corp.example. = 1
attempt_duration_seconds odd corp.example. = 1
attempt_duration_seconds refuses corp.example. = 1
attempt_duration_seconds secure corp.example. = 2
attempt_duration_seconds silent dark.example. = 2
attempts_total tcp servfail cut corp.example. = 1
attempts_total tls unreachable secure corp.example. = 2
attempts_total udp answered nxdomain . = 1
attempts_total udp answered nxdomain corp.example. = 1
attempts_total udp other_rcode odd corp.example. = 1
attempts_total udp refused refuses corp.example. = 1
attempts_total udp timeout silent dark.example. = 2
attempts_total udp truncated cut corp.example. = 1
looping cut corp.example. = 0
looping nxdomain corp.example. = 0
looping odd corp.example. = 0
looping refuses corp.example. = 0
looping secure corp.example. = 0
resting cut corp.example. = 0
resting nxdomain corp.example. = 0
resting odd corp.example. = 0
resting refuses corp.example. = 0
resting secure corp.example. = 0
`)
	stub.SetServers([]upstream.Server{cut.Server})
	expect(`attempt_duration_seconds cut corp.example. = 2
attempt_duration_seconds nxdomain . = 1
attempt_duration_seconds silent dark.example. = 2
attempts_total tcp servfail cut corp.example. = 1
attempts_total udp answered nxdomain . = 1
attempts_total udp timeout silent dark.example. = 2
attempts_total udp truncated cut corp.example. = 1
looping cut corp.example. = 0
resting cut corp.example. = 0
`)
	stopStub()
	expect(`attempt_duration_seconds nxdomain . = 1
attempt_duration_seconds silent dark.example. = 2
attempts_total udp answered nxdomain . = 1
attempts_total udp timeout silent dark.example. = 2
`)
}

// TestMetrics_Abandoned: a query whose callers have all left was sent, and is counted.
func TestMetrics_Abandoned(t *testing.T) {
	registry, received := prometheus.NewRegistry(), make(chan struct{})
	silent := serve(t, func(string, *dns.Msg) [][]byte {
		close(received)
		return nil
	})
	c := newClient(t, upstream.Config{
		Metrics: upstream.NewMetrics(registry), TryTimeout: time.Minute, Timeout: time.Minute,
	}, silent)
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-received
		leave()
	}()
	if _, err := c.Exchange(ctx, ask("a.corp.example.")); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	const want = "attempt_duration_seconds silent . = 1\nattempts_total udp abandoned silent . = 1"
	names := map[string]*fake{"silent": silent}
	got := ""
	for ; got == ""; got = strings.TrimSpace(series(t, registry, names)) { // after Exchange has returned
		time.Sleep(time.Millisecond)
	}
	for !strings.Contains(got, "duration") { // it is observed after the counter
		got = strings.TrimSpace(series(t, registry, names))
	}
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestMetrics_RemovedServer: the reply of a server that was removed meanwhile adds no series, which
// nothing would delete.
func TestMetrics_RemovedServer(t *testing.T) {
	registry := prometheus.NewRegistry()
	received, removed := make(chan struct{}), make(chan struct{})
	slow := serve(t, func(_ string, query *dns.Msg) [][]byte {
		close(received)
		<-removed
		return [][]byte{good(t, query)}
	})
	c := newClient(t, upstream.Config{
		Metrics: upstream.NewMetrics(registry), TryTimeout: time.Minute, Timeout: time.Minute,
	}, slow)
	exchanged := make(chan error)
	go func() {
		_, err := c.Exchange(t.Context(), ask("a.corp.example."))
		exchanged <- err
	}()
	<-received
	c.SetServers(nil)
	close(removed)
	if err := <-exchanged; err != nil {
		t.Error(err)
	}
	if got := strings.TrimSpace(series(t, registry, nil)); got != "" {
		t.Errorf("series of a server that was removed:\n%s", got)
	}
}
