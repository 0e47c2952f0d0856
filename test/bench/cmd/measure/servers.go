// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/miekg/dns"
	"gonum.org/v1/plot/plotter"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/peer"
)

// The names of servers in the table.
const (
	nameOurs    = "dnsconfigurer"
	nameCoreDNS = "CoreDNS"
	nameCached  = "CoreDNS, cache"
	nameBefore  = "dnsconfigurer, before"
)

// subject is a measured server: how to start it, and its process.
type subject struct {
	name string
	run  func(ctx context.Context, dir string) (*peer.Process, error)
	from []string // the command before that of a client; nil: clients are beside the server
	*peer.Process
}

// clusterDNS returns CoreDNS in two configurations, dnsconfigurer, and the program of
// -before if there is one.
func (b *bench) clusterDNS(cache int) []*subject {
	coreDNS := func(cache int) func(context.Context, string) (*peer.Process, error) {
		return func(ctx context.Context, dir string) (*peer.Process, error) {
			c := b.cluster
			c.Dir, c.Cache = dir, cache
			return peer.CoreDNS(ctx, b.binaries.coreDNS, c)
		}
	}
	list := []*subject{{name: nameCoreDNS, run: coreDNS(0)}, {name: nameCached, run: coreDNS(cache)},
		b.dnsconfigurer(func(*peer.Cluster) {})}
	if b.before != "" {
		list = append(list, b.subject(nameBefore, b.before, func(*peer.Cluster) {}))
	}
	return list
}

// dnsconfigurer returns dnsconfigurer with b.cluster after change.
func (b *bench) dnsconfigurer(change func(*peer.Cluster)) *subject {
	return b.subject(nameOurs, b.binaries.dnsconfigurer, change)
}

func (b *bench) subject(name, path string, change func(*peer.Cluster)) *subject {
	return &subject{name: name, run: func(ctx context.Context, dir string) (*peer.Process, error) {
		c := b.cluster
		change(&c)
		c.Dir = dir
		return peer.Ours(ctx, path, c)
	}}
}

// start starts the subjects one after another and waits for the first reply of each.
func (b *bench) start(ctx context.Context, subjects []*subject, first ask.Question) error {
	for _, s := range subjects {
		dir, err := os.MkdirTemp(b.dir, "server")
		if err != nil {
			return err
		}
		if s.Process, err = s.run(ctx, dir); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		err = s.Wait(ctx, func() bool {
			m, err := ask.One(s.Address, first)
			return err == nil && m != nil && m.Rcode == dns.RcodeSuccess && (len(m.Answer) > 0 || s.name == "echo")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func stop(subjects []*subject) {
	for _, s := range subjects {
		if s.Process != nil {
			s.Kill()
		}
	}
}

// perQuery adds the cost of a query from a file to a table, at rates; 0 is unbounded. It returns the lines of a chart.
func (b *bench) perQuery(ctx context.Context, r *report, title string, subjects []*subject, file string, rates ...int) ([]line, error) {
	lines := make([]line, len(subjects))
	for _, rate := range rates {
		load := load{Rate: rate, Seconds: b.seconds}
		times, err := b.under(ctx, load, subjects, file)
		if err != nil {
			return nil, err
		}
		for i, s := range subjects {
			figure := median(times[s.name])
			r.Add(title, load.String(), s.name, figure)
			lines[i].name = s.name
			if rate > 0 {
				lines[i].points = append(lines[i].points, plotter.XY{X: float64(rate), Y: figure})
			}
		}
	}
	return lines, nil
}

// under loads the subjects in turn, run after run, so that a disturbance of the machine
// affects all of them. It returns the cost of a query for each, in microseconds.
func (b *bench) under(ctx context.Context, load load, subjects []*subject, files ...string) (map[string][]float64, error) {
	times := map[string][]float64{}
	for run := range b.runs {
		for _, s := range subjects {
			r, err := load.Run(ctx, s, files[run%len(files)])
			if err != nil {
				return nil, err
			}
			times[s.name] = append(times[s.name], r.PerQuery(r.CPU))
		}
	}
	return times, nil
}

// queries writes a file for dnsperf.
func (b *bench) queries(name string, lines []string) (string, error) {
	if len(lines) == 0 {
		return "", errors.New("no queries")
	}
	path := filepath.Join(b.dir, name)
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	for _, l := range lines {
		fmt.Fprintln(f, l)
	}
	return path, f.Close()
}
