// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package relay

import "github.com/prometheus/client_golang/prometheus"

// metrics counts what the relay passes. The label values are the constants of result.
type metrics struct {
	containers *prometheus.CounterVec
	panics     prometheus.Counter
	waiting    prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		containers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_nri_containers_total",
			Help: "Containers about to be created, by whether the agent has replied in time.",
		}, []string{"result"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dnsconfigurer_nri_panics_total",
			Help: "Panics in calls of the container runtime.",
		}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dnsconfigurer_nri_waiting",
			Help: "1 while the relay waits for the end of stops, or for the agent, before it registers with the container runtime.",
		}),
	}
	for _, v := range results {
		m.containers.WithLabelValues(string(v)) // an alert needs the series before the first event
	}
	r.MustRegister(m.containers, m.panics, m.waiting)
	return m
}

func (m *metrics) count(r result) { m.containers.WithLabelValues(string(r)).Inc() }
func (m *metrics) countPanic()    { m.panics.Inc() }

func (m *metrics) setWaiting(waits bool) {
	value := 0.0
	if waits {
		value = 1
	}
	m.waiting.Set(value)
}
