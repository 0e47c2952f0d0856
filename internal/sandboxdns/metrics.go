// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxdns

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/events"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
)

// Metrics counts the work of an [Applier]. The label values are a closed set.
type Metrics struct {
	prefix    string                 // of the names
	outcomes  *prometheus.CounterVec // nil in a shim, as create
	create    prometheus.Histogram
	sandboxes prometheus.Gauge
	refreshes *prometheus.CounterVec
	refreshed prometheus.Gauge
}

// NewAgentMetrics returns the metrics of an agent, registered with r. It panics if r has them
// already.
func NewAgentMetrics(r prometheus.Registerer) *Metrics {
	m := newMetrics(r, "dnsconfigurer_agent_", "Sandboxes that the relay has announced.")
	m.outcomes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dnsconfigurer_agent_decisions_total",
		Help: "Decisions for sandboxes, by outcome.",
	}, []string{"outcome"})
	m.create = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "dnsconfigurer_agent_create_seconds",
		Help:    "Time that the agent adds to the creation of a container.",
		Buckets: prometheus.ExponentialBuckets(0.00005, 4, 9), // 50 us to 3.3 s
	})
	outcomes := append(cri.Outcomes(), cri.Late, cri.ForeignFile, cri.PodChanged, cri.Unverified, cri.WriteFailed, cri.Restored)
	for _, o := range outcomes { // an alert needs the series before the first event
		m.outcomes.WithLabelValues(string(o))
	}
	r.MustRegister(m.outcomes, m.create)
	return m
}

// NewShimMetrics returns the metrics of a shim, registered with r. It panics if r has them
// already. The shim counts its decisions itself.
func NewShimMetrics(r prometheus.Registerer) *Metrics {
	return newMetrics(r, "dnsconfigurer_shim_", "Sandboxes whose resolv.conf is verified; 0 if that is not configured.")
}

// newMetrics returns the metrics of refreshes. prefix begins the names of metrics.
func newMetrics(r prometheus.Registerer, prefix, sandboxes string) *Metrics {
	m := &Metrics{
		prefix:    prefix,
		sandboxes: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "sandboxes", Help: sandboxes}),
		refreshes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "refreshes_total",
			Help: "Files of running pods that were compared with a new decision, by result.",
		}, []string{"result"}),
		refreshed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: prefix + "last_refresh_timestamp_seconds",
			Help: "Time of the last rewrite of a file of a running pod, 0 if there was none.",
		}),
	}
	for _, result := range events.RefreshResults() {
		m.refreshes.WithLabelValues(string(result))
	}
	r.MustRegister(m.sandboxes, m.refreshes, m.refreshed)
	return m
}

// RegisterDrift registers a gauge for each kind of drift.
func (a *Applier) RegisterDrift(r prometheus.Registerer) {
	for _, d := range events.Drifts() {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        a.Metrics.prefix + "drifted_files",
			Help:        "Files of running pods that differ from their decision, by kind.",
			ConstLabels: prometheus.Labels{"drift": string(d)},
		}, func() float64 { return float64(a.countDrift(d)) }))
	}
}

func (m *Metrics) count(o cri.Outcome) {
	if m.outcomes != nil {
		m.outcomes.WithLabelValues(string(o)).Inc()
	}
}

func (m *Metrics) observeCreate(took time.Duration) { m.create.Observe(took.Seconds()) }
func (m *Metrics) setSandboxes(n int)               { m.sandboxes.Set(float64(n)) }

func (m *Metrics) countRefresh(r events.RefreshResult) {
	m.refreshes.WithLabelValues(string(r)).Inc()
	if r == events.Refreshed {
		m.refreshed.SetToCurrentTime()
	}
}
