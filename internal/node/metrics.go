// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/events"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
)

// Metrics counts the work of an [Applier]. The label values are a closed set.
type Metrics struct {
	outcomes  *prometheus.CounterVec
	create    prometheus.Histogram
	refreshes *prometheus.CounterVec
}

// newMetrics returns metrics registered with r. It panics if r has them already.
func newMetrics(r prometheus.Registerer) *Metrics {
	outcomes := append(cri.Outcomes(), cri.Late, cri.ForeignFile, cri.PodChanged, cri.Unverified, cri.WriteFailed, cri.Restored)
	return &Metrics{
		outcomes: daemon.NewCounterVec(r, "dnsconfigurer_agent_decisions_total", "Decisions for sandboxes, by outcome.",
			"outcome", outcomes...),
		create: promauto.With(r).NewHistogram(prometheus.HistogramOpts{
			Name:    "dnsconfigurer_agent_create_seconds",
			Help:    "Time that the agent adds to the creation of a container.",
			Buckets: prometheus.ExponentialBuckets(0.00005, 4, 9), // 50 us to 3.3 s
		}),
		refreshes: daemon.NewCounterVec(r, "dnsconfigurer_agent_refreshes_total",
			"Files of running pods that were compared with a new decision, by result.", "result", events.RefreshResults()...),
	}
}

// RegisterDrift registers a gauge for each kind of drift.
func (a *Applier) RegisterDrift(r prometheus.Registerer) {
	for _, d := range events.Drifts() {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "dnsconfigurer_agent_drifted_files",
			Help:        "Files of running pods that differ from their decision, by kind.",
			ConstLabels: prometheus.Labels{"drift": string(d)},
		}, func() float64 { return float64(a.countDrift(d)) }))
	}
}

func (m *Metrics) count(o cri.Outcome) {
	m.outcomes.WithLabelValues(string(o)).Inc()
}

func (m *Metrics) countRefresh(r events.RefreshResult) {
	m.refreshes.WithLabelValues(string(r)).Inc()
}
