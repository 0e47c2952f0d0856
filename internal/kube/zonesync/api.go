// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zonesync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Config is what an [API] works with.
type Config struct {
	// Zone is filled. Nobody else writes it. Required.
	Zone *zone.Zone

	// Domain is the zone's. Required.
	Domain fqdn.Name

	// Core and Discovery read the API groups "" and discovery.k8s.io, both v1. They
	// must have no timeout of their own, which would cut the watches. Required.
	Core, Discovery rest.Interface

	// Pods watches pods too, for a zone with zone.PodsVerified.
	Pods bool

	// Snapshot is the file that keeps the zone for a time without API server. "":
	// there is none.
	Snapshot string

	// SnapshotWait is how long the first lists may take before the file is read. It
	// is read at once when the API server refuses the connection. 0: 2 s.
	SnapshotWait time.Duration

	// SnapshotMaxAge is the age from which on the file is not read. 0: 24 h.
	SnapshotMaxAge time.Duration

	// Logger hears of changes of state. nil: nobody does.
	Logger *slog.Logger

	// Register takes the metrics. nil: there are none.
	Register prometheus.Registerer
}

func (c *Config) complete() error {
	switch {
	case c.Zone == nil:
		return errors.New("the zone is missing")
	case c.Domain == "":
		return errors.New("the cluster's domain is missing")
	case c.Core == nil || c.Discovery == nil:
		return errors.New("a client of the API is missing")
	case c.SnapshotWait < 0:
		return fmt.Errorf("the wait before the snapshot is read is negative: %v", c.SnapshotWait)
	case c.SnapshotMaxAge < 0:
		return fmt.Errorf("the greatest age of a snapshot is negative: %v", c.SnapshotMaxAge)
	}
	if c.SnapshotWait == 0 {
		c.SnapshotWait = 2 * time.Second
	}
	if c.SnapshotMaxAge == 0 {
		c.SnapshotMaxAge = 24 * time.Hour
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// API fills a zone with what the API server says.
type API struct {
	cfg     Config
	feeds   []*feed
	changes chan change
	refused chan struct{}
	cluster atomic.Pointer[string] // UID of the namespace kube-system; nil: not known
	made    time.Time

	programming *prometheus.HistogramVec

	// Those of the goroutine that writes the zone.
	pending    *change         // taken from changes and not yet applied
	complete   map[*feed]bool  // has had a complete list
	fromFile   *string         // the cluster of the snapshot that the zone has parts of; nil: none
	complaints map[what]string // what was logged last of an object that had parts left out
}

// what is an object of any kind.
type what struct {
	resource string
	name
}

// changesAtOnce is how many events wait for the writer, and go into one edit.
const changesAtOnce = 512

// New returns an API that knows nothing until it runs.
func New(cfg Config) (*API, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("filling the zone from the API: %w", err)
	}
	a := &API{
		cfg: cfg, changes: make(chan change, changesAtOnce), refused: make(chan struct{}, 1),
		complete: map[*feed]bool{}, complaints: map[what]string{}, made: time.Now(), programming: newProgramming(),
	}
	add := func(k kind, client rest.Interface) {
		a.feeds = append(a.feeds, &feed{
			kind: k, client: client, converter: converter{cfg.Domain}, changes: a.changes, refused: a.refused, log: cfg.Logger,
		})
	}
	add(namespaces, cfg.Core)
	add(services, cfg.Core)
	add(endpointSlices, cfg.Discovery)
	if cfg.Pods {
		add(pods, cfg.Core)
	}
	if cfg.Register != nil {
		cfg.Register.MustRegister(a.programming, newCollector(a))
	}
	return a, nil
}

// Run keeps up with the API until ctx ends, and returns nil then, after the snapshot
// is written. What fails is tried again. It is called once.
func (a *API) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, f := range a.feeds {
		f.stopped = ctx.Done()
		running.Go(func() { f.run(ctx) })
	}
	if a.cfg.Snapshot != "" {
		running.Go(func() { a.save(ctx) })
	}
	a.write(ctx)
	running.Wait()
	return nil
}

// Status is how things stand with one type of object.
type Status struct {
	Resource  string    // as the API calls it: services
	Listed    bool      // a complete list has come
	LastReply time.Time // when the last event, bookmark or answer arrived; zero: none yet
	Err       error     // of the last request, if it failed
}

// String is a line for an operator.
func (s Status) String() string {
	state := "not listed yet"
	if s.Listed {
		state = "listed"
	}
	if !s.LastReply.IsZero() {
		state += fmt.Sprintf(", last reply %v ago", time.Since(s.LastReply).Round(time.Second))
	}
	if s.Err != nil {
		state += ": " + s.Err.Error()
	}
	return s.Resource + ": " + state
}

// Status returns how things stand with each type. Any goroutine may call it.
func (a *API) Status() []Status {
	list := make([]Status, len(a.feeds))
	for i, f := range a.feeds {
		list[i] = Status{Resource: f.resource, Listed: f.listed.Load()}
		if ns := f.heard.Load(); ns != 0 {
			list[i].LastReply = time.Unix(0, ns)
		}
		if err := f.failed.Load(); err != nil {
			list[i].Err = *err
		}
	}
	return list
}

// write applies what comes, and the snapshot when nothing does.
func (a *API) write(ctx context.Context) {
	patience := time.NewTimer(a.cfg.SnapshotWait)
	defer patience.Stop()
	for {
		if a.pending != nil {
			a.apply(*a.pending)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case c := <-a.changes:
			a.apply(c)
		case <-a.refused:
			if patience.Stop() { // it has not been done yet
				a.restore()
			}
		case <-patience.C:
			a.restore()
		}
	}
}

// apply applies a change, and with it all that are waiting, up to the next list.
func (a *API) apply(c change) {
	a.pending = nil
	var told []object
	now := a.cfg.Zone.Snapshot()
	a.update(func(e *zone.Edit) {
		for range changesAtOnce {
			if c.list {
				a.takeList(e, now, c)
			} else {
				for _, o := range c.objects {
					c.feed.apply(e, o)
					if !o.changed.IsZero() {
						told = append(told, o)
					}
				}
			}
			a.complain(c)
			select {
			case c = <-a.changes:
			default:
				return
			}
			if c.list { // has to see what the zone holds now
				break
			}
		}
		a.pending = &c
	})
	for _, o := range told {
		a.programming.WithLabelValues(string(o.kind)).Observe(time.Since(o.changed).Seconds())
	}
}

func (a *API) update(edit func(*zone.Edit)) {
	a.cfg.Zone.Update(uint32(time.Now().Unix()), edit)
}

func (a *API) takeList(e *zone.Edit, now *zone.Snapshot, c change) {
	c.feed.replace(e, now, c.objects)
	for _, o := range c.objects {
		if o.cluster != "" {
			a.cluster.Store(&o.cluster)
			a.recognize(e, now)
		}
	}
	if !a.complete[c.feed] {
		a.complete[c.feed] = true
		c.feed.listed.Store(true)
		a.cfg.Logger.Info("listed", "resource", c.feed.resource, "objects", len(c.objects))
	}
	if !slices.ContainsFunc(a.feeds, func(f *feed) bool { return !a.complete[f] }) {
		a.fromFile = nil
		e.SetLoaded()
	}
}

// complain logs what had to be left out of objects, once for each object and reason.
func (a *API) complain(c change) {
	for _, o := range c.objects {
		of := what{c.feed.resource, o.name}
		if o.wrong == nil {
			delete(a.complaints, of)
		} else if a.complaints[of] != o.wrong.Error() {
			a.complaints[of] = o.wrong.Error()
			a.cfg.Logger.Warn("an object, or part of it, cannot have names",
				"resource", of.resource, "namespace", of.namespace, "name", of.name.name, "error", o.wrong)
		}
	}
}
