// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"path"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Metrics counts the calls that a [Shim] forwards.
//
// The label values are closed sets: the methods of CRI and "other", the codes of gRPC and
// "other", and the constants of [Outcome].
type Metrics struct {
	requests  *prometheus.CounterVec
	sandboxes *prometheus.CounterVec
	decision  prometheus.Histogram
	panics    prometheus.Counter
	connected prometheus.Gauge
}

// NewMetrics returns metrics that are registered with r, or with nothing if it is nil. It panics if r has them already.
func NewMetrics(r prometheus.Registerer) *Metrics {
	register := promauto.With(r)
	m := &Metrics{
		requests: register.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_cri_requests_total",
			Help: "Calls forwarded to the container runtime, by method and gRPC code.",
		}, []string{"method", "code"}),
		sandboxes: register.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_sandbox_decisions_total",
			Help: "RunPodSandbox requests, by outcome.",
		}, []string{"outcome"}),
		decision: register.NewHistogram(prometheus.HistogramOpts{
			Name:    "dnsconfigurer_sandbox_decision_seconds",
			Help:    "Time that the shim adds to a RunPodSandbox request, including the pod lookup.",
			Buckets: prometheus.ExponentialBuckets(0.00005, 4, 9), // 50 us to 3.3 s
		}),
		panics: register.NewCounter(prometheus.CounterOpts{
			Name: "dnsconfigurer_sandbox_report_panics_total",
			Help: "Panics while the outcome of a RunPodSandbox request was reported.",
		}),
		connected: register.NewGauge(prometheus.GaugeOpts{
			Name: "dnsconfigurer_runtime_connected",
			Help: "1 if the shim is connected to the container runtime. It connects when the kubelet makes a call.",
		}),
	}
	for _, o := range outcomes {
		m.sandboxes.WithLabelValues(string(o)) // an alert needs the series before the first event
	}
	return m
}

func (m *Metrics) countCall(method string, err error) {
	name := "other"
	if isKnown(method) {
		name = path.Base(method)
	}
	code := "other"
	if c := status.Code(err); c <= codes.Unauthenticated { // the last code of gRPC
		code = c.String()
	}
	m.requests.WithLabelValues(name, code).Inc()
}
