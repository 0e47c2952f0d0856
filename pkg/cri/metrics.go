// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"path"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/status"
)

// Metrics counts what passes a Shim. nil counts nothing.
//
// Labels are closed sets: methods are those that CRI has today and "other", codes
// are gRPC's seventeen, outcomes are the constants of Outcome.
type Metrics struct {
	requests  *prometheus.CounterVec
	sandboxes *prometheus.CounterVec
	decision  prometheus.Histogram
}

// NewMetrics returns metrics that are registered with r. It panics when they are
// registered there already, as prometheus does.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_cri_requests_total",
			Help: "Calls that were passed to the container runtime, by method and gRPC code.",
		}, []string{"method", "code"}),
		sandboxes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_sandbox_decisions_total",
			Help: "Requests for pod sandboxes, by what became of them.",
		}, []string{"outcome"}),
		decision: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "dnsconfigurer_sandbox_decision_seconds",
			Help:    "Time that the shim added to a request for a pod sandbox, the look-up of the pod included.",
			Buckets: prometheus.ExponentialBuckets(0.00005, 4, 9), // 50 us to 3.3 s
		}),
	}
	for _, o := range outcomes {
		m.sandboxes.WithLabelValues(string(o)) // a series that is not there cannot be alerted on
	}
	r.MustRegister(m.requests, m.sandboxes, m.decision)
	return m
}

func (m *Metrics) request(method string, err error) {
	if m == nil {
		return
	}
	name := "other"
	if methods[method] != unlisted {
		name = path.Base(method)
	}
	m.requests.WithLabelValues(name, status.Code(err).String()).Inc()
}

func (m *Metrics) sandbox(o Outcome, took time.Duration) {
	if m == nil {
		return
	}
	m.sandboxes.WithLabelValues(string(o)).Inc()
	m.decision.Observe(took.Seconds())
}
