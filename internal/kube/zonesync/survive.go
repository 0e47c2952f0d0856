// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zonesync

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/snapshot"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

const (
	// savePeriod is how often the zone is written at most.
	savePeriod = 30 * time.Second

	// renewals is how many times in its greatest age a snapshot is written though the
	// zone has not changed: its time says that the zone was still so.
	renewals = 24
)

// restore fills what no complete list has come for from the snapshot.
func (a *API) restore() {
	if a.cfg.Snapshot == "" || a.cfg.Zone.Snapshot().Loaded() {
		return
	}
	state, err := snapshot.Read(a.cfg.Snapshot)
	if err == nil {
		err = state.CheckUsable(a.header(), time.Now(), a.cfg.SnapshotMaxAge)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		a.cfg.Logger.Info("the API server is silent and there is no snapshot", "file", a.cfg.Snapshot)
		return
	case err != nil:
		a.cfg.Logger.Warn("the API server is silent and the snapshot is of no use", "file", a.cfg.Snapshot, "error", err)
		return
	}
	a.update(func(e *zone.Edit) {
		for _, f := range a.feeds {
			if !a.complete[f] {
				f.restore(e, state)
			}
		}
		e.SetStale(state.Time)
	})
	a.fromFile = &state.Cluster
	a.cfg.Logger.Warn("the API server is silent, names are served from the snapshot",
		"file", a.cfg.Snapshot, "age", time.Since(state.Time).Round(time.Second))
}

// recognize takes out what came from the snapshot of another cluster, once the UID of
// this one is known; now is the zone before the edit.
func (a *API) recognize(e *zone.Edit, now *zone.Snapshot) {
	if a.fromFile == nil || *a.fromFile == "" || *a.fromFile == *a.cluster.Load() {
		return
	}
	a.cfg.Logger.Warn("the snapshot was of another cluster: its names are gone again",
		"file", a.cfg.Snapshot, "cluster", *a.cluster.Load(), "snapshot", *a.fromFile)
	a.fromFile = nil
	e.SetUnloaded()
	for _, f := range a.feeds {
		if f.resource != namespaces.resource && !a.complete[f] {
			f.replace(e, now, nil)
		}
	}
}

func (a *API) header() snapshot.Header {
	h := snapshot.Header{Domain: a.cfg.Domain, HasPods: a.cfg.Pods}
	if uid := a.cluster.Load(); uid != nil {
		h.Cluster = *uid
	}
	return h
}

// save writes the snapshot when the zone has changed, now and then when it has not,
// and at the end. The zone that is written does not change meanwhile.
func (a *API) save(ctx context.Context) {
	period := time.NewTicker(savePeriod)
	defer period.Stop()
	var saved *zone.Snapshot
	var savedAt time.Time
	failed := false
	save := func(renew time.Duration) {
		now, at := a.cfg.Zone.Snapshot(), a.heard()
		if !now.Loaded() || !now.StaleSince().IsZero() || now == saved && at.Sub(savedAt) < renew {
			return
		}
		h := a.header()
		h.Time = at
		if err := snapshot.Write(a.cfg.Snapshot, h, now); err != nil {
			if !failed {
				a.cfg.Logger.Warn("the zone cannot be kept for the next start", "error", err)
			}
			failed = true
			return
		}
		saved, savedAt, failed = now, at, false
	}
	for {
		select {
		case <-ctx.Done():
			save(time.Second)
			return
		case <-period.C:
			save(a.cfg.SnapshotMaxAge / renewals)
		}
	}
}

// heard is since when nothing has been missed: the earliest of the last signs of life.
func (a *API) heard() time.Time {
	var earliest time.Time
	for _, f := range a.feeds {
		if at := time.Unix(0, f.heard.Load()); earliest.IsZero() || at.Before(earliest) {
			earliest = at
		}
	}
	return earliest
}
