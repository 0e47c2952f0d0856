// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import "github.com/prometheus/client_golang/prometheus"

// result is the result of a call that removes the taint.
type result string

const (
	removed  result = "removed"
	conflict result = "conflict" // the taints of the node have changed in between; tried again
	failed   result = "failed"   // tried again
)

// taintMetrics counts the work of a [taintRemover].
type taintMetrics struct{ removals *prometheus.CounterVec }

// newTaintMetrics returns metrics that are registered with r. It panics if r has them already.
func newTaintMetrics(r prometheus.Registerer) *taintMetrics {
	m := &taintMetrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dnsconfigurer_agent_startup_taint_removals_total",
		Help: "Attempts to remove the startup taint from the node, by result.",
	}, []string{"result"})}
	for _, result := range []result{removed, conflict, failed} { // an alert needs the series before the first event
		m.removals.WithLabelValues(string(result))
	}
	r.MustRegister(m.removals)
	return m
}

func (m *taintMetrics) count(r result) { m.removals.WithLabelValues(string(r)).Inc() }
