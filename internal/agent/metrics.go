// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/events"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
)

// Metrics counts the work of an [Agent]. The label values are a closed set: the outcomes.
type Metrics struct {
	outcomes  *prometheus.CounterVec
	create    prometheus.Histogram
	sandboxes prometheus.Gauge
	connected prometheus.Gauge
	refreshes *prometheus.CounterVec
	refreshed prometheus.Gauge
}

// NewMetrics returns metrics that are registered with r. It panics if r has them already.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_agent_decisions_total",
			Help: "Decisions for sandboxes, by outcome.",
		}, []string{"outcome"}),
		create: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "dnsconfigurer_agent_create_seconds",
			Help:    "Time that the agent adds to the creation of a container.",
			Buckets: prometheus.ExponentialBuckets(0.00005, 4, 9), // 50 us to 3.3 s
		}),
		sandboxes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dnsconfigurer_agent_sandboxes",
			Help: "Sandboxes that the relay has announced.",
		}),
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dnsconfigurer_agent_relay_connections",
			Help: "Connections of NRI relays.",
		}),
	}
	m.refreshes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dnsconfigurer_agent_refreshes_total",
		Help: "Files of running pods that were compared with a new decision, by result.",
	}, []string{"result"})
	m.refreshed = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dnsconfigurer_agent_last_refresh_timestamp_seconds",
		Help: "Time of the last rewrite of a file of a running pod, 0 if there was none.",
	})
	outcomes := append(cri.Outcomes(), cri.Late, cri.ForeignFile, cri.PodChanged, cri.WriteFailed, cri.Restored)
	for _, o := range outcomes { // an alert needs the series before the first event
		m.outcomes.WithLabelValues(string(o))
	}
	for _, result := range events.RefreshResults() {
		m.refreshes.WithLabelValues(string(result))
	}
	r.MustRegister(m.outcomes, m.create, m.sandboxes, m.connected, m.refreshes, m.refreshed)
	return m
}

func (m *Metrics) count(o cri.Outcome)              { m.outcomes.WithLabelValues(string(o)).Inc() }
func (m *Metrics) observeCreate(took time.Duration) { m.create.Observe(took.Seconds()) }
func (m *Metrics) setSandboxes(n int)               { m.sandboxes.Set(float64(n)) }
func (m *Metrics) addConnections(change int)        { m.connected.Add(float64(change)) }

func (m *Metrics) countRefresh(r events.RefreshResult) {
	m.refreshes.WithLabelValues(string(r)).Inc()
	if r == events.Refreshed {
		m.refreshed.SetToCurrentTime()
	}
}
