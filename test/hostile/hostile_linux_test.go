// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

var duration = flag.Duration("attack", time.Second, "the duration of the measurement during each attack")

// The lowest shares of right replies. A lookup of a cluster's name never fails.
var leastRight = [numKinds]float64{ofCluster: 1, ofCache: 0.999, ofOthers: 0.999, overTCP: 1}

// maxRuns is how often a measurement is repeated at most, during the same attack, while a share is
// too low: one lost name of the 300 of a run says little about a share of 99.9 %. The sum counts. A
// single pause of the machine may cost ten names, which the right ones of 33 runs outweigh.
const maxRuns = 60

// TestHostile runs each attack on both servers, beside the well-behaved client.
func TestHostile(t *testing.T) {
	cluster, node := startServers(t, dnstest.Start(t, answer).Addr.String(), []string{"corp.silent.example"}, "")
	report := &table{}
	t.Cleanup(func() { t.Log(report) })
	for _, target := range []*server{cluster, node} {
		warm(t, target)
	}
	pace := calibrate(t, wellBehaved, cluster, node)
	for _, target := range []*server{cluster, node} {
		report.without(target, run(t, wellBehaved, target, *duration, pace))
	}
	for _, a := range slices.Concat(floods, tcpAttacks) {
		for _, target := range []*server{cluster, node} {
			t.Run(strings.ReplaceAll(target.name+"/"+a.name, " ", "_"), func(t *testing.T) {
				defend(t, a, pace, target, []*server{cluster, node}, report)
			})
		}
	}
}

// warm lets a server cache the answers of the well-behaved client.
func warm(t *testing.T, s *server) {
	t.Helper()
	for i := range warmNames {
		m, err := dns.Exchange(new(dns.Msg).SetQuestion(fmt.Sprintf("cached-%d.example.", i), dns.TypeA), s.addr.String())
		if err != nil || m.Rcode != dns.RcodeSuccess {
			t.Fatalf("%s: %v, %v", s.name, m, err)
		}
	}
}

// run sends a load to a server.
func run(t *testing.T, l load, target *server, duration time.Duration, pace float64) *result {
	t.Helper()
	return must.Get(l.run(target.addr, duration, pace))(t)
}

// Limits of calibrate.
const (
	calibrationLoad = 6                     // times the rate of the load: that of the fastest floods
	calibrationTime = 50 * time.Millisecond // median of the replies, at most
	leastPace       = 1. / 64
)

// calibrate returns the part of the rates at which the machine can run attacks: 1, or less if it
// is too slow to answer all queries of a load with the rate of a flood. A slower machine measures the
// same shares with fewer queries.
func calibrate(t *testing.T, l load, targets ...*server) float64 {
	t.Helper()
	for pace := 1.; ; pace /= 2 {
		fast := true
		for _, target := range targets {
			r := run(t, l, target, *duration, calibrationLoad*pace)
			for k := range numKinds {
				fast = fast && r.right[k] == r.sent[k]
			}
			fast = fast && r.quantile(0.5) <= calibrationTime
		}
		if fast || pace <= leastPace {
			t.Logf("all run at %v of their rates", pace)
			return pace
		}
	}
}

// measure returns the result of the well-behaved client. It repeats the measurement, maxRuns times
// in all, while a share is too low and can still become high enough.
func measure(t *testing.T, target *server, pace float64) *result {
	t.Helper()
	all := new(result)
	for runs := 1; runs <= maxRuns; runs++ {
		all.merge(run(t, wellBehaved, target, *duration, pace))
		isLow := func(k kind) bool { return all.rate(k) < leastRight[k] }
		isLost := func(k kind) bool {
			wrong, of := all.sent[k]-all.right[k], all.sent[k]*maxRuns/runs
			return float64(wrong) > (1-leastRight[k])*float64(of)
		}
		measured := []kind{ofCache, ofOthers}
		if !slices.ContainsFunc(measured, isLow) || slices.ContainsFunc(measured, isLost) {
			break
		}
	}
	return all
}

// defend runs an attack on a server beside the well-behaved client. all are the servers that
// work for it.
func defend(t *testing.T, a attack, pace float64, target *server, all []*server, report *table) {
	for _, s := range all {
		s.resetPeak(t)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hostile := &attacker{t: t, to: target.addr, http: target.http, pace: pace}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.run(ctx, hostile)
	}()
	time.Sleep(a.lead)
	r := measure(t, target, pace)
	cancel()
	<-ended
	for _, s := range all {
		s.checkPeak(t)
	}
	report.add(a, target, int(hostile.sent.Load()), r, target.peak(t))
	for k := range numKinds {
		if r.rate(k) < leastRight[k] {
			t.Errorf("%s names: %d of %d replies were right, want %.1f %%:\n%s", k, r.right[k],
				r.sent[k], 100*leastRight[k], strings.Join(r.wrong, "\n"))
		}
	}
	for _, s := range all {
		s.settle(t)
	}
}

// workGauges are the gauges of work in flight, as far as a server has them.
var workGauges = regexp.MustCompile(`^dnsconfigurer_dns_.*(in_flight|in_use|waiting|pending|open|connections)`)

// idleDescriptors are the connections that a server may keep open for later use.
const idleDescriptors = 16

// settle waits until a server has no work left, and checks that no query made it panic.
func (s *server) settle(t *testing.T) {
	t.Helper()
	s.poll(t, "to be idle", func() string {
		values := process.Metrics(s.http)
		for name, value := range values {
			if workGauges.MatchString(name) && !strings.HasSuffix(name, "_total") && value > 0 {
				return fmt.Sprintf("%s is %v", name, value)
			}
		}
		// A few connections to upstream servers, and for /metrics, may be idle.
		if n := s.openDescriptors(t); n > s.descriptors+idleDescriptors {
			return fmt.Sprintf("%d file descriptors, %d at the start", n, s.descriptors)
		}
		return ""
	})
	if n, found := process.Metrics(s.http)["dnsconfigurer_dns_panics_total"]; !found || n != 0 {
		t.Errorf("%v panics, counted: %t:\n%s", n, found, s.Log())
	}
}

// table is the table in test/hostile/results.md.
type table struct {
	baseline map[*server]*result
	rows     []string
}

func (r *table) without(s *server, base *result) {
	if r.baseline == nil {
		r.baseline = map[*server]*result{}
	}
	r.baseline[s] = base
}

func (r *table) add(a attack, s *server, sent int, with *result, peak int) {
	base := r.baseline[s]
	shares := func(r *result) string {
		var list []string
		for k := range numKinds {
			list = append(list, strings.TrimSuffix(fmt.Sprintf("%.1f", 100*r.rate(k)), ".0"))
		}
		return strings.Join(list, ", ")
	}
	times := func(r *result) string {
		return fmt.Sprintf("%.1f, %.1f", milliseconds(r.quantile(0.5)), milliseconds(r.quantile(0.99)))
	}
	r.rows = append(r.rows, fmt.Sprintf("| %s | %s | %s | %d | %s | %s | %s | %s | %d |", a.name,
		s.name, a.rate, sent, shares(base), shares(with), times(base), times(with), peak))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// String returns the table in Markdown.
func (r *table) String() string {
	return "\n| attack | server | rate | sent | right without, % | right with, % | p50, p99 without, " +
		"ms | p50, p99 with, ms | memory, MiB |\n" +
		"|---|---|---|---|---|---|---|---|---|\n" + strings.Join(r.rows, "\n")
}

// TestAttacks_Documented: each attack is in the table of test/hostile/results.md.
func TestAttacks_Documented(t *testing.T) {
	page := must.Get(os.ReadFile("results.md"))(t)
	for _, a := range slices.Concat(floods, tcpAttacks) {
		for _, server := range []string{"cluster DNS", "node cache"} {
			if row := fmt.Sprintf("| %s | %s | %s |", a.name, server, a.rate); !strings.Contains(string(page), row) {
				t.Errorf("test/hostile/results.md has no row %q", row)
			}
		}
	}
}
