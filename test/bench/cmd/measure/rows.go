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
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/measure"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/peer"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/spec"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/world"
)

// serviceNames returns the names of all services in an order that is no order.
func (b *bench) serviceNames() []string {
	list := make([]string, len(b.world.Services))
	for i, s := range b.world.Services {
		list[i] = s.Name + "." + s.Namespace + ".svc." + world.Zone
	}
	rand.New(rand.NewPCG(1, 0)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// clusterQueries is what an A query for a Service costs, and what memory the data takes.
func (b *bench) clusterQueries(ctx context.Context, t *measure.Table) error {
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
	if err := os.WriteFile(zone, []byte(spec.New(b.world, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, "insecure").File()), 0o644); err != nil {
		return err
	}
	watching := b.clusterDNS(30)
	subjects := append(watching,
		&subject{name: "NSD", run: func(ctx context.Context, dir string) (*peer.Process, error) { return peer.NSD(ctx, dir, zone) }},
		&subject{name: "Knot", run: func(ctx context.Context, dir string) (*peer.Process, error) { return peer.Knot(ctx, dir, zone) }},
		b.echo())
	defer stop(subjects)
	if err := b.start(ctx, subjects, ask.Question{Name: names[0], Type: dns.TypeA}); err != nil {
		return err
	}
	for _, load := range b.loads() {
		if err := b.perQuery(ctx, t, "CPU per cluster A query", load, subjects, func(*subject) (string, int) { return file, 1 }); err != nil {
			return err
		}
	}
	for _, s := range watching {
		n, err := measure.Resident(s.PID())
		if err != nil {
			return err
		}
		t.Add("resident memory", s.name, float64(n)/1e6, "MB")
	}
	return nil
}

// startup is how long a server takes from its start to its first right answer. It comes
// after others have read all objects, which the API encodes when it first sends them.
func (b *bench) startup(ctx context.Context, t *measure.Table) error {
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
		t.Add("start to first answer", s.name, measure.Median(times[s.name]), "ms")
	}
	return nil
}

// snapshot has a server write its snapshot.
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

// once starts a server, tells how long it took to its first answer, and stops it.
func (b *bench) once(ctx context.Context, s *subject, tell func(time.Duration)) error {
	alone := []*subject{s}
	defer stop(alone)
	if err := b.start(ctx, alone, ask.Question{Name: b.serviceNames()[0], Type: dns.TypeA}); err != nil {
		return err
	}
	tell(time.Since(s.Started))
	return nil
}

// externalNames is how many names the cache has.
const externalNames = 1000

// externalQueries is what a cache hit costs.
func (b *bench) externalQueries(ctx context.Context, t *measure.Table) error {
	lines := make([]string, externalNames)
	for i := range lines {
		lines[i] = fmt.Sprintf("n%d.example.com A", i)
	}
	file, err := b.queries("external", lines)
	if err != nil {
		return err
	}
	subjects := append(b.clusterDNS(300)[1:],
		&subject{name: "unbound", run: func(ctx context.Context, dir string) (*peer.Process, error) {
			return peer.Unbound(ctx, dir, b.cluster.Upstream)
		}},
		&subject{name: "dnsmasq", run: func(ctx context.Context, dir string) (*peer.Process, error) {
			return peer.Dnsmasq(ctx, dir, b.cluster.Upstream)
		}},
		b.echo())
	defer stop(subjects)
	if err := b.start(ctx, subjects, ask.Question{Name: "n0.example.com.", Type: dns.TypeA}); err != nil {
		return err
	}
	for _, s := range subjects {
		if err := measure.Warm(ctx, s.Address, file); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	for _, load := range b.loads() {
		if err := b.perQuery(ctx, t, "CPU per external cache hit", load, subjects, func(*subject) (string, int) { return file, 1 }); err != nil {
			return err
		}
	}
	return nil
}

// hostSuffixes are the search domains of a usual node.
var hostSuffixes = []string{"corp.example.", "dc.example.net."}

// searchPaths is what a pod's lookup of a name outside the cluster costs, with the five
// search domains of a usual node: six queries, or one where the server expands.
func (b *bench) searchPaths(ctx context.Context, t *measure.Table) error {
	var lines, expanded []string
	for i := range externalNames {
		name := fmt.Sprintf("n%d.example.com.", i)
		searches := append([]string{"ns-0.svc." + world.Zone, "svc." + world.Zone, world.Zone}, hostSuffixes...)
		for _, search := range append(searches, "") {
			lines = append(lines, name+search+" A")
		}
		expanded = append(expanded, name+"search.ns-0."+world.Zone+"ap.k8s.io A")
	}
	file, err := b.queries("search", lines)
	if err != nil {
		return err
	}
	autopath, err := b.queries("autopath", expanded)
	if err != nil {
		return err
	}
	b.cluster.HostSuffixes = hostSuffixes
	defer func() { b.cluster.HostSuffixes = nil }()
	subjects := b.clusterDNS(300)[1:]
	defer stop(subjects)
	if err := b.start(ctx, subjects, ask.Question{Name: "n0.example.com.", Type: dns.TypeA}); err != nil {
		return err
	}
	if ours := subjects[len(subjects)-1]; ours.name == nameOurs { // a denial would cost little
		name, _, _ := strings.Cut(expanded[0], " ")
		m, err := ask.One(ours.Address, ask.Question{Name: dns.Fqdn(name), Type: dns.TypeA})
		if err != nil || m == nil || len(m.Answer) < 2 {
			return fmt.Errorf("%s does not expand %s: %v (%v)", nameOurs, name, m, err)
		}
	}
	choose := func(s *subject) (string, int) {
		if s.name == nameOurs {
			return autopath, 1
		}
		return file, 6
	}
	for _, s := range subjects {
		path, _ := choose(s)
		if err := measure.Warm(ctx, s.Address, path); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return b.perQuery(ctx, t, "CPU per external lookup by a pod", b.load, subjects, choose)
}

// podWatch is the memory that it takes to expand search paths. CoreDNS watches all pods
// for it; ours reads the name.
func (b *bench) podWatch(ctx context.Context, t *measure.Table) error {
	subjects := []*subject{{name: nameCoreDNS, run: func(ctx context.Context, dir string) (*peer.Process, error) {
		c := b.cluster
		c.Dir, c.PodMode, c.Autopath = dir, "verified", true
		return peer.CoreDNS(ctx, b.binaries.coreDNS, c)
	}}}
	if all := b.clusterDNS(0); len(all) > 2 {
		subjects = append(subjects, all[2])
	}
	defer stop(subjects)
	if err := b.start(ctx, subjects, ask.Question{Name: b.serviceNames()[0], Type: dns.TypeA}); err != nil {
		return err
	}
	for _, s := range subjects {
		n, err := measure.Resident(s.PID())
		if err != nil {
			return err
		}
		t.Add(fmt.Sprintf("resident memory, autopath, %d pods", len(b.world.Pods)), s.name, float64(n)/1e6, "MB")
	}
	return nil
}
