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
	"time"

	"github.com/miekg/dns"

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

// clusterQueries measures the cost of an A query for a Service, and the memory of the
// data.
func (b *bench) clusterQueries(ctx context.Context, t *table) error {
	names := b.serviceNames()
	lines := make([]string, len(names))
	for i, name := range names {
		lines[i] = name + " A"
	}
	file, err := b.queries("cluster", lines)
	if err != nil {
		return err
	}
	zone := filepath.Join(b.dir, "zone")
	if err := os.WriteFile(zone,
		[]byte(spec.New(b.world, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, "insecure").File()), 0o644); err != nil {
		return err
	}
	watching := b.clusterDNS(30)
	subjects := append(watching,
		nsd.subject(zone), knot.subject(zone), b.echo())
	defer stop(subjects)
	if err := b.start(ctx, subjects, ask.Question{Name: names[0], Type: dns.TypeA}); err != nil {
		return err
	}
	if err := b.perQuery(ctx, t, "CPU per cluster A query", subjects, file); err != nil {
		return err
	}
	for _, s := range watching {
		kib, err := s.Memory("VmRSS")
		if err != nil {
			return err
		}
		t.Add("resident memory", s.name, float64(kib)*1024/1e6, "MB")
	}
	return nil
}

// loggedQueries measures the cost of an A query for a Service with and without a log of all queries to a file.
func (b *bench) loggedQueries(ctx context.Context, t *table) error {
	names := b.serviceNames()
	lines := make([]string, len(names))
	for i, name := range names {
		lines[i] = name + " A"
	}
	file, err := b.queries("logged", lines)
	if err != nil {
		return err
	}
	logged := b.cluster
	logged.Log = true
	subjects := b.clusterDNS(0)
	subjects = append(subjects[:1], subjects[2:]...)
	subjects = append(subjects, b.subject(nameOurs+", log", b.binaries.dnsconfigurer, func(c *peer.Cluster) { *c = logged }),
		&subject{name: nameCoreDNS + ", log", run: func(ctx context.Context, dir string) (*peer.Process, error) {
			c := logged
			c.Dir = dir
			return peer.CoreDNS(ctx, b.binaries.coreDNS, c)
		}})
	defer stop(subjects)
	if err := b.start(ctx, subjects, ask.Question{Name: names[0], Type: dns.TypeA}); err != nil {
		return err
	}
	return b.perQuery(ctx, t, "CPU per cluster A query", subjects, file)
}

// startup measures the time from the start of a server to its first right reply. It runs
// after others have read all objects, because the API encodes them at the first request.
func (b *bench) startup(ctx context.Context, t *table) error {
	times := map[string][]float64{}
	subjects := b.clusterDNS(0)
	subjects = append(subjects[:1], subjects[2:]...)
	snapshot, refused := filepath.Join(b.dir, "snapshot"), "http://127.0.0.1:1"
	if err := b.snapshot(ctx, snapshot); err != nil {
		return err
	}
	offline := b.dnsconfigurer(func(c *peer.Cluster) { c.Snapshot, c.API = snapshot, refused })
	offline.name += ", snapshot, API server gone"
	subjects = append(subjects, offline)
	for range b.runs {
		for _, s := range subjects {
			err := b.once(ctx, s, func(took time.Duration) { times[s.name] = append(times[s.name], took.Seconds()*1e3) })
			if err != nil {
				return err
			}
		}
	}
	for _, s := range subjects {
		t.Add("start to first answer", s.name, median(times[s.name]), "ms")
	}
	return nil
}

// snapshot runs a server until it has written its snapshot.
func (b *bench) snapshot(ctx context.Context, file string) error {
	writer := []*subject{b.dnsconfigurer(func(c *peer.Cluster) { c.Snapshot = file })}
	defer stop(writer)
	if err := b.start(ctx, writer, ask.Question{Name: b.serviceNames()[0], Type: dns.TypeA}); err != nil {
		return err
	}
	return writer[0].Wait(ctx, func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
}

// once starts a server, records the time to its first reply, and stops it.
func (b *bench) once(ctx context.Context, s *subject, tell func(time.Duration)) error {
	alone := []*subject{s}
	defer stop(alone)
	if err := b.start(ctx, alone, ask.Question{Name: b.serviceNames()[0], Type: dns.TypeA}); err != nil {
		return err
	}
	tell(time.Since(s.Started))
	return nil
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
func (b *bench) externalQueries(ctx context.Context, t *table) error {
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
	return b.perQuery(ctx, t, "CPU per external cache hit", subjects, file)
}

// missRate is the number of names that are not cached, a second.
const missRate = 3000

// missQueries measures names that each server has to forward. Each run has other names.
func (b *bench) missQueries(ctx context.Context, t *table) error {
	load := load{Rate: missRate, Seconds: b.load.Seconds}
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
		t.Add("CPU per external cache miss, "+load.String(), s.name, median(times[s.name]), "us")
	}
	return nil
}
