// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/peer"
)

// sizes measures start, memory and changes of clusters of several sizes.
func (b *bench) sizes(ctx context.Context, r *report) error {
	memory := chart{name: "memory", x: axis{"endpoints", true}, y: axis{"resident memory, MB", true}, rising: true}
	for _, size := range []struct{ services, endpoints int }{{1000, 10_000}, {10_000, 100_000}, {50_000, 1_000_000}} {
		s, err := b.ofSize(size.services, size.endpoints, 0)
		if err != nil {
			return err
		}
		err = s.measureSize(ctx, r, &memory)
		s.api.Stop()
		if err != nil {
			return err
		}
	}
	r.charts = append(r.charts, memory)
	return nil
}

// measureSize measures servers that hold the world of b.
func (b *bench) measureSize(ctx context.Context, r *report, memory *chart) error {
	column := fmt.Sprintf("%d endpoints", b.endpoints)
	file, err := b.serviceFile()
	if err != nil {
		return err
	}
	subjects := b.clusterDNS(0)
	subjects = append(subjects[:1], subjects[2:]...)
	if err := b.starts(ctx, r, column, subjects); err != nil {
		return err
	}
	defer stop(subjects)
	if err := b.start(ctx, subjects, b.firstQuestion()); err != nil {
		return err
	}
	for _, s := range subjects {
		if _, err := (load{Rate: highRate, Seconds: b.seconds}).Run(ctx, s, file); err != nil {
			return err
		}
		late, err := b.changesOf(ctx, s, b.changes)
		if err != nil {
			return err
		}
		r.Add("from the event of an endpoint to the answer, p50, ms", column, s.name, median(late))
		kib, err := s.Memory("VmRSS")
		if err != nil {
			return err
		}
		mb := float64(kib) * 1024 / 1e6
		r.Add("resident memory, MB", column, s.name, mb)
		i := slices.IndexFunc(memory.lines, func(l line) bool { return l.name == s.name })
		if i < 0 {
			i, memory.lines = len(memory.lines), append(memory.lines, line{name: s.name})
		}
		memory.lines[i].points = append(memory.lines[i].points, plotter.XY{X: float64(b.endpoints), Y: mb})
	}
	return nil
}

// starts measures the time from the start of a server to its first right reply. The first start is not counted: the
// API server encodes the objects for it.
func (b *bench) starts(ctx context.Context, r *report, column string, subjects []*subject) error {
	snapshot, refused := filepath.Join(b.dir, fmt.Sprintf("snapshot-%d", b.endpoints)), "http://127.0.0.1:1"
	if err := b.snapshot(ctx, snapshot); err != nil {
		return err
	}
	offline := b.dnsconfigurer(func(c *peer.Cluster) { c.Snapshot, c.API = snapshot, refused })
	offline.name += ", snapshot, API server gone"
	times := map[string][]float64{}
	for run := range b.runs + 1 {
		for _, s := range slices.Concat(subjects, []*subject{offline}) {
			err := b.once(ctx, s, func(took time.Duration) {
				if run > 0 {
					times[s.name] = append(times[s.name], took.Seconds()*1e3)
				}
			})
			if err != nil {
				return err
			}
		}
	}
	for _, s := range slices.Concat(subjects, []*subject{offline}) {
		r.Add("start to the first answer, ms", column, s.name, median(times[s.name]))
	}
	return nil
}

// snapshot runs a server until it has written its snapshot.
func (b *bench) snapshot(ctx context.Context, file string) error {
	writer := []*subject{b.dnsconfigurer(func(c *peer.Cluster) { c.Snapshot = file })}
	defer stop(writer)
	if err := b.start(ctx, writer, b.firstQuestion()); err != nil {
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
	if err := b.start(ctx, alone, b.firstQuestion()); err != nil {
		return err
	}
	tell(time.Since(s.Started))
	return nil
}
