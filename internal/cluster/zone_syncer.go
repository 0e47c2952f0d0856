// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// SyncerConfig configures a [Syncer].
type SyncerConfig struct {
	// Zone is the zone to fill. It must have no other writer. Required.
	Zone *zone.Zone

	// Domain is the zone's domain. Required.
	Domain fqdn.Name

	// Core and Discovery are clients of the API groups "" and discovery.k8s.io, both v1.
	// They must have no timeout, which would end the watches. Required.
	Core, Discovery rest.Interface

	// Pods makes the Syncer watch pods too, for a zone with zone.PodsVerified.
	Pods bool

	// Snapshot is the file that keeps the zone for a start without the API server. "":
	// no snapshot.
	Snapshot string

	// Identified is called with the identity of the cluster, the UID of the namespace
	// kube-system, when it is known. nil: not called.
	Identified func(uid string)

	// Logger receives changes of state. nil: no log.
	Logger *slog.Logger

	// Register registers the metrics. nil: no metrics.
	Register prometheus.Registerer
}

// Syncer keeps a zone in sync with the API server.
type Syncer struct {
	cfg       SyncerConfig
	informers []*informer
	changes   chan change
	refused   chan struct{}
	cluster   atomic.Pointer[string] // UID of the namespace kube-system; nil: unknown
	created   time.Time
	loaded    chan struct{} // closed when the first lists of all resources are in the zone

	programming *prometheus.HistogramVec

	// Used only by the goroutine that writes the zone.
	complete map[*informer]bool // a complete list has been applied
	restored *string            // the cluster of the snapshot that the zone has parts of; nil: none
	logged   map[objectKey]string
}

// objectKey identifies an object of any resource.
type objectKey struct {
	resource string
	types.NamespacedName
}

// maxBatch is the number of changes that can wait for the writer, the most that one edit
// applies, and the objects in each part of a first list.
const maxBatch = 512

// NewSyncer returns a Syncer. The zone stays empty until Run.
func NewSyncer(cfg SyncerConfig) *Syncer {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Syncer{
		cfg: cfg, changes: make(chan change, maxBatch), refused: make(chan struct{}, 1),
		complete: map[*informer]bool{}, logged: map[objectKey]string{}, created: time.Now(), loaded: make(chan struct{}),
		// The service level indicator "DNS programming latency" (kubernetes/community,
		// sig-scalability/slos/dns_programming_latency.md).
		programming: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "dnsconfigurer_dns_programming_duration_seconds",
			Help:    "Time from the change of a Service or pod, as the EndpointSlice records it, until the zone has it.",
			Buckets: prometheus.ExponentialBuckets(.001, 2, 16), // up to 32 s
		}, []string{"service_kind"}),
	}
	add := func(r resource, client rest.Interface) {
		s.informers = append(s.informers, &informer{
			resource: r, client: client, converter: converter{cfg.Domain, cfg.Zone},
			changes: s.changes, refused: s.refused, log: cfg.Logger,
		})
	}
	add(namespaces, cfg.Core)
	add(services, cfg.Core)
	add(endpointSlices, cfg.Discovery)
	if cfg.Pods {
		add(pods, cfg.Core)
	}
	if cfg.Register != nil {
		s.register(cfg.Register)
	}
	return s
}

// Run keeps the zone in sync until ctx is done. It then writes the snapshot and returns
// nil. It retries failed requests. It must be called once.
func (s *Syncer) Run(ctx context.Context) error {
	var tasks sync.WaitGroup
	for _, i := range s.informers {
		i.stopped = ctx.Done()
		tasks.Go(func() { i.run(ctx) })
	}
	if s.cfg.Snapshot != "" {
		tasks.Go(func() { s.runSaver(ctx) })
	}
	tasks.Go(func() {
		select {
		case <-s.loaded:
			debug.FreeOSMemory() // Go would keep that of the first lists: with 100,000 endpoints 12 of 77 MB
		case <-ctx.Done():
		}
	})
	s.runWriter(ctx)
	tasks.Wait()
	return nil
}

// Status is the state of one resource.
type Status struct {
	Resource  string    // as in the API: services
	Listed    bool      // a complete list has been applied
	LastReply time.Time // of the last event, bookmark or response; zero: none yet
	Err       error     // of the last request, if it failed
}

// String returns the status as one line.
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

// Status returns the state of each resource. It is safe for concurrent use.
func (s *Syncer) Status() []Status {
	list := make([]Status, len(s.informers))
	for n, i := range s.informers {
		list[n] = Status{Resource: i.name, Listed: i.listed.Load()}
		if ns := i.lastReply.Load(); ns != 0 {
			list[n].LastReply = time.Unix(0, ns)
		}
		if err := i.failure.Load(); err != nil {
			list[n].Err = *err
		}
	}
	return list
}

// runWriter applies changes until ctx is done. It restores the snapshot if the lists are
// not complete after snapshotWait.
func (s *Syncer) runWriter(ctx context.Context) {
	wait := time.NewTimer(snapshotWait)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-s.changes:
			s.apply(c)
		case <-s.refused:
			if wait.Stop() { // the first refused connection, before the timer
				s.restore()
			}
		case <-wait.C:
			s.restore()
		}
	}
}

// apply applies a change and those that are waiting.
func (s *Syncer) apply(c change) {
	var triggers []*trigger
	wasComplete := s.isComplete()
	s.update(func(e *zone.Edit) {
		for n := 1; ; n++ {
			s.applyChange(e, c)
			if c.trigger != nil {
				triggers = append(triggers, c.trigger)
			}
			if n == maxBatch {
				return
			}
			select {
			case c = <-s.changes:
			default:
				return
			}
		}
	})
	if !wasComplete && s.isComplete() {
		close(s.loaded)
	}
	for _, t := range triggers {
		s.programming.WithLabelValues(string(t.kind)).Observe(time.Since(t.time).Seconds())
	}
}

func (s *Syncer) update(edit func(*zone.Edit)) {
	s.cfg.Zone.Update(uint32(time.Now().Unix()), edit)
}

func (s *Syncer) applyChange(e *zone.Edit, c change) {
	s.logProblems(c)
	if c.list {
		s.applyList(e, c)
		return
	}
	for _, o := range c.objects {
		c.informer.apply(e, o)
	}
}

// applyList replaces the objects of a resource. The zone is loaded with the first list of
// the last resource.
func (s *Syncer) applyList(e *zone.Edit, c change) {
	c.informer.replaceAll(e, c.objects)
	for _, o := range c.objects {
		if o.remarks != nil && o.cluster != "" {
			s.cluster.Store(&o.cluster)
			s.dropForeign(e)
			if s.cfg.Identified != nil {
				s.cfg.Identified(o.cluster)
			}
		}
	}
	if !s.complete[c.informer] {
		s.complete[c.informer] = true
		c.informer.listed.Store(true)
		s.cfg.Logger.Info("listed", "resource", c.informer.name, "objects", len(c.objects))
	}
	if s.isComplete() {
		s.restored = nil
		e.SetLoaded()
	}
}

// isComplete reports whether a complete list of every resource has been applied.
func (s *Syncer) isComplete() bool { return len(s.complete) == len(s.informers) }

// logProblems logs the parts of objects that were left out, once for each object and
// problem.
func (s *Syncer) logProblems(c change) {
	for _, o := range c.objects {
		key := objectKey{c.informer.name, o.name()}
		if err := o.problem(); err == nil {
			delete(s.logged, key)
		} else if s.logged[key] != err.Error() {
			s.logged[key] = err.Error()
			s.cfg.Logger.Warn("invalid object, leaving out the invalid part",
				"resource", key.resource, "namespace", key.Namespace, "name", key.Name, "error", err)
		}
	}
}
