// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

const (
	// snapshotWait is how long the first lists may take before the snapshot is read. It is read at once
	// when the API server refuses a connection.
	snapshotWait = 2 * time.Second

	// snapshotMaxAge is the age from which on a snapshot is not read.
	snapshotMaxAge = 24 * time.Hour

	// savePeriod is the time between two snapshots of a zone that changes. The first is written
	// as soon as the zone is loaded, so that a server that runs for seconds leaves one.
	savePeriod = 30 * time.Second

	// rewrites is how many times within its maximum age a snapshot of an unchanged zone
	// is written again. Its time records that the zone was still current.
	rewrites = 24
)

// restore fills the resources that have no complete list yet from the snapshot.
func (s *Syncer) restore() {
	if s.cfg.Snapshot == "" || s.cfg.Zone.Snapshot().Loaded() {
		return
	}
	state, err := ReadSnapshot(s.cfg.Snapshot)
	if err == nil {
		err = state.CheckUsable(s.header(), time.Now(), snapshotMaxAge)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.cfg.Logger.Info("API server unreachable, no snapshot", "file", s.cfg.Snapshot)
		return
	case err != nil:
		s.cfg.Logger.Warn("API server unreachable, snapshot unusable", "file", s.cfg.Snapshot, "error", err)
		return
	}
	s.update(func(e *zone.Edit) {
		for _, i := range s.informers {
			if !s.complete[i] {
				i.replaceAll(e, nil) // the part of a list
				i.restore(e, state)
			}
		}
		e.SetStale(state.Time)
	})
	s.restored = &state.Cluster
	s.cfg.Logger.Warn("API server unreachable, serving names from the snapshot",
		"file", s.cfg.Snapshot, "age", time.Since(state.Time).Round(time.Second))
}

// dropForeign removes the names from a snapshot of another cluster, once the UID of this
// one is known.
func (s *Syncer) dropForeign(e *zone.Edit) {
	if s.restored == nil || *s.restored == "" || *s.restored == *s.cluster.Load() {
		return
	}
	s.cfg.Logger.Warn("snapshot is of another cluster, removing its names",
		"file", s.cfg.Snapshot, "cluster", *s.cluster.Load(), "snapshot", *s.restored)
	s.restored = nil
	e.SetUnloaded()
	for _, i := range s.informers {
		if i.name != namespaces.name && !s.complete[i] {
			i.replaceAll(e, nil)
		}
	}
}

func (s *Syncer) header() SnapshotHeader {
	h := SnapshotHeader{Domain: s.cfg.Domain, HasPods: s.cfg.Pods, HasExternal: len(s.cfg.Zone.External()) > 0}
	if uid := s.cluster.Load(); uid != nil {
		h.Cluster = *uid
	}
	return h
}

// runSaver writes snapshots until ctx is done, and then a last one.
func (s *Syncer) runSaver(ctx context.Context) {
	period := time.NewTicker(savePeriod)
	defer period.Stop()
	var last saved
	loaded := s.loaded
	for {
		select {
		case <-ctx.Done():
			s.save(&last, time.Second)
			return
		case <-loaded:
			loaded = nil
			s.save(&last, 0)
			period.Reset(savePeriod)
		case <-period.C:
			s.save(&last, snapshotMaxAge/rewrites)
		}
	}
}

// saved is the last snapshot that was written.
type saved struct {
	zone   *zone.Snapshot
	at     time.Time // at which it was current
	failed bool      // a later attempt has failed, which was logged
}

// save writes the zone if it has changed, or if the last snapshot is at least maxAge old. A zone
// that is itself from a snapshot is not written.
func (s *Syncer) save(last *saved, maxAge time.Duration) {
	now, at := s.cfg.Zone.Snapshot(), s.currentAsOf()
	if !now.Loaded() || !now.StaleSince().IsZero() || now == last.zone && at.Sub(last.at) < maxAge {
		return
	}
	h := s.header()
	h.Time = at
	if err := WriteSnapshot(s.cfg.Snapshot, h, now); err != nil {
		if !last.failed {
			s.cfg.Logger.Warn("cannot write the snapshot", "error", err)
		}
		last.failed = true
		return
	}
	*last = saved{zone: now, at: at}
}

// currentAsOf returns the time at which the zone was known to be current: the earliest of
// the informers' last replies.
func (s *Syncer) currentAsOf() time.Time {
	var earliest time.Time
	for _, i := range s.informers {
		if at := time.Unix(0, i.lastReply.Load()); earliest.IsZero() || at.Before(earliest) {
			earliest = at
		}
	}
	return earliest
}

// serviceKind is a label value: the kind of an EndpointSlice's Service. The values are
// those of the equivalent metric of CoreDNS.
type serviceKind string

const (
	clusterIP serviceKind = "cluster_ip"
	headless  serviceKind = "headless_with_selector" // without a selector, the time of a change is not known
)

// register registers the metrics of s.
func (s *Syncer) register(r prometheus.Registerer) {
	r.MustRegister(s.programming)
	gauge := func(name, help, resource string, value func() float64) {
		opts := prometheus.GaugeOpts{Name: name, Help: help}
		if resource != "" {
			opts.ConstLabels = prometheus.Labels{"resource": resource}
		}
		r.MustRegister(prometheus.NewGaugeFunc(opts, value))
	}
	for _, i := range s.informers {
		gauge("dnsconfigurer_dns_api_silence_seconds",
			"Time since the last event, bookmark or response of the API server, or since the start. "+
				"Bookmarks arrive about once a minute.", i.name, func() float64 {
				if ns := i.lastReply.Load(); ns != 0 {
					return time.Since(time.Unix(0, ns)).Seconds()
				}
				return time.Since(s.created).Seconds()
			})
		gauge("dnsconfigurer_dns_objects", "Objects in the zone.", i.name, func() (n float64) {
			for range i.list(s.cfg.Zone.Snapshot()) {
				n++
			}
			return n
		})
	}
	gauge("dnsconfigurer_dns_snapshot_age_seconds",
		"Age of the snapshot from which names are served; 0: names are from the API server.", "", func() float64 {
			if at := s.cfg.Zone.Snapshot().StaleSince(); !at.IsZero() {
				return time.Since(at).Seconds()
			}
			return 0
		})
}
