// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/miekg/dns"
	"gonum.org/v1/plot/plotter"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/peer"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/spec"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/world"
)

// serviceNames returns the names of all Services in a scattered order.
func (b *bench) serviceNames() []string {
	list := make([]string, len(b.world.Services))
	for i, s := range b.world.Services {
		list[i] = s.Name + "." + s.Namespace + ".svc." + world.Zone
	}
	rand.New(rand.NewPCG(1, 0)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// Rates of queries per second. 0 is unbounded: a hundred queries are in flight.
const (
	lowRate  = 2000
	highRate = 20000
)

// clusterQueries measures the cost of an A query for a Service, and the time until a reply.
func (b *bench) clusterQueries(ctx context.Context, r *report) error {
	file, err := b.serviceFile()
	if err != nil {
		return err
	}
	zone := filepath.Join(b.dir, "zone")
	if err := os.WriteFile(zone,
		[]byte(spec.New(b.world, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, "insecure").File()), 0o644); err != nil {
		return err
	}
	subjects := append(b.clusterDNS(30), nsd.subject(zone), knot.subject(zone), b.echo())
	defer stop(subjects)
	if err := b.start(ctx, subjects, b.firstQuestion()); err != nil {
		return err
	}
	lines, err := b.perQuery(ctx, r, "CPU time of a cluster A query, µs", subjects, file, 500, lowRate, 5000, highRate, 0)
	if err != nil {
		return err
	}
	r.charts = append(r.charts,
		chart{name: "cpu", x: axis{"queries per second", true}, y: axis{"CPU time per query, µs", false}, lines: lines})
	return b.latencies(ctx, r, subjects, file)
}

// latencies adds how long the clients wait for replies at the low rate, and its chart.
func (b *bench) latencies(ctx context.Context, r *report, subjects []*subject, file string) error {
	c := chart{name: "latency", x: axis{"share of the replies, %", false}, y: axis{"time until the reply, ms", true}, rising: true}
	for _, s := range subjects {
		took, err := load{Rate: lowRate, Seconds: b.seconds}.times(ctx, s, file)
		if err != nil {
			return err
		}
		points := plotter.XYs{}
		for _, p := range []int{1, 10, 25, 50, 75, 90, 95, 99, 100} {
			points = append(points, plotter.XY{X: float64(p), Y: percentile(took, p)})
		}
		for _, p := range []int{50, 99} {
			r.Add("time until the reply at 2000/s, ms", fmt.Sprintf("p%d", p), s.name, percentile(took, p))
		}
		c.lines = append(c.lines, line{s.name, points})
	}
	r.charts = append(r.charts, c)
	return nil
}

// serviceFile writes a file with an A query for each Service.
func (b *bench) serviceFile() (string, error) {
	names := b.serviceNames()
	lines := make([]string, len(names))
	for i, name := range names {
		lines[i] = name + " A"
	}
	return b.queries("cluster", lines)
}

// firstQuestion is a question that a server with all objects answers.
func (b *bench) firstQuestion() ask.Question {
	return ask.Question{Name: b.serviceNames()[0], Type: dns.TypeA}
}

// featureQueries measures the cost of an A query for a Service with a log of all queries to a file, with rules that do not
// concern it, and without either.
func (b *bench) featureQueries(ctx context.Context, r *report) error {
	file, err := b.serviceFile()
	if err != nil {
		return err
	}
	subjects := b.clusterDNS(0)
	subjects = append(subjects[:1], subjects[2:]...)
	for _, f := range []struct {
		name   string
		change func(*peer.Cluster)
	}{
		{", log", func(c *peer.Cluster) { c.Log = true }},
		{", rules", func(c *peer.Cluster) { c.Rules = true }},
	} {
		subjects = append(subjects, b.subject(nameOurs+f.name, b.binaries.dnsconfigurer, f.change),
			&subject{name: nameCoreDNS + f.name, run: func(ctx context.Context, dir string) (*peer.Process, error) {
				c := b.cluster
				f.change(&c)
				c.Dir = dir
				return peer.CoreDNS(ctx, b.binaries.coreDNS, c)
			}})
	}
	defer stop(subjects)
	if err := b.start(ctx, subjects, b.firstQuestion()); err != nil {
		return err
	}
	_, err = b.perQuery(ctx, r, "CPU time of a query with a log, and with rules, µs", subjects, file, highRate, 0)
	return err
}

// externalNames is the number of names in the cache.
const externalNames = 1000

// externalFile writes a file with queries for names that fit into each cache.
func (b *bench) externalFile() (string, error) {
	lines := make([]string, externalNames)
	for i := range lines {
		lines[i] = fmt.Sprintf("n%d.example.com A", i)
	}
	return b.queries("external", lines)
}

// externalQueries measures the cost of a cache hit.
func (b *bench) externalQueries(ctx context.Context, r *report) error {
	file, err := b.externalFile()
	if err != nil {
		return err
	}
	subjects := append(b.clusterDNS(300)[1:],
		unbound.subject(b.upstreamWith("@")), dnsmasq.subject(b.upstreamWith("#")), b.echo())
	defer stop(subjects)
	if err := b.start(ctx, subjects, ask.Question{Name: "n0.example.com.", Type: dns.TypeA}); err != nil {
		return err
	}
	for _, s := range subjects {
		if err := warm(ctx, s, file); err != nil {
			return err
		}
	}
	_, err = b.perQuery(ctx, r, "CPU time of a cache hit, µs", subjects, file, lowRate, highRate, 0)
	return err
}

// missRate is the number of names that are not cached, a second.
const missRate = 3000

// missQueries measures names that each server has to forward. Each run has other names.
func (b *bench) missQueries(ctx context.Context, r *report) error {
	load := load{Rate: missRate, Seconds: b.seconds}
	var files []string
	for run := range b.runs {
		lines := make([]string, 2*load.Rate*load.Seconds)
		for i := range lines {
			lines[i] = fmt.Sprintf("m%d-%d.example.com A", run, i)
		}
		file, err := b.queries(fmt.Sprintf("misses%d", run), lines)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	subjects := b.clusterDNS(300)[1:]
	defer stop(subjects)
	if err := b.start(ctx, subjects, ask.Question{Name: "n0.example.com.", Type: dns.TypeA}); err != nil {
		return err
	}
	times, err := b.under(ctx, load, subjects, files...)
	if err != nil {
		return err
	}
	for _, s := range subjects {
		r.Add("CPU time of a cache miss, µs", load.String(), s.name, median(times[s.name]))
	}
	return nil
}
