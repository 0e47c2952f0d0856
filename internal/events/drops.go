// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// dropReason is why an event was dropped.
type dropReason string

const (
	dropQueueFull dropReason = "queue_full" // more events wait than are sent
	dropRejected  dropReason = "rejected"   // by the API server
	dropNoReply   dropReason = "no_reply"   // of the API server
	dropStopped   dropReason = "stopped"    // the shim ended
	dropInvalid   dropReason = "invalid"    // names of the pod that the API server does not accept
)

// dropInterval is the time between two log lines about dropped events.
const dropInterval = time.Minute

// Drops counts dropped events, and logs their number at most once a minute. It is safe for
// concurrent use.
type Drops struct {
	dropped *prometheus.CounterVec

	mu     sync.Mutex
	counts map[dropReason]int // since the last line
	err    string             // of the last event
	logged time.Time
}

// NewDrops returns Drops whose metrics are registered with r.
func NewDrops(r prometheus.Registerer) *Drops {
	d := &Drops{
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_events_dropped_total",
			Help: "Events that were not sent, by reason.",
		}, []string{"reason"}),
		counts: map[dropReason]int{},
	}
	for _, reason := range []dropReason{dropQueueFull, dropRejected, dropNoReply, dropStopped, dropInvalid} {
		d.dropped.WithLabelValues(string(reason)) // an alert needs the series before the first event
	}
	r.MustRegister(d.dropped)
	return d
}

// add counts n events that were dropped for the same reason.
func (d *Drops) add(log *slog.Logger, reason dropReason, n int) {
	if n == 0 {
		return
	}
	d.dropped.WithLabelValues(string(reason)).Add(float64(n))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts[reason] += n
	if time.Since(d.logged) >= dropInterval {
		d.logLocked(log)
	}
}

// addError counts an event that was dropped because of err.
func (d *Drops) addError(log *slog.Logger, reason dropReason, err error) {
	d.mu.Lock()
	d.err = excerpt.Text(err.Error(), excerpt.MaxMessage)
	d.mu.Unlock()
	d.add(log, reason, 1)
}

// flush logs what was counted since the last line.
func (d *Drops) flush(log *slog.Logger) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.counts) > 0 {
		d.logLocked(log)
	}
}

func (d *Drops) logLocked(log *slog.Logger) {
	total := 0
	for _, n := range d.counts {
		total += n
	}
	log.Warn("events not sent", "count", total, "reasons", d.counts, "error", d.err)
	d.counts, d.err, d.logged = map[dropReason]int{}, "", time.Now()
}
