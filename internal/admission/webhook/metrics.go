// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// verdict is what became of a request.
type verdict string

const (
	verdictNone     verdict = "none"    // it was no review
	verdictPassed   verdict = "passed"  // nothing to judge, or to change
	verdictAllowed  verdict = "allowed" // judged, and nothing to say
	verdictWarned   verdict = "warned"  // allowed, with warnings
	verdictDenied   verdict = "denied"
	verdictPatched  verdict = "patched"  // allowed, and changed
	verdictUnread   verdict = "unread"   // allowed, for it could not be read
	verdictPanicked verdict = "panicked" // allowed, for we failed
)

// metrics counts requests. Labels are closed sets: two endpoints and "other", two
// operations, "other" and "none", the verdicts, the HTTP codes of Handler, and the codes
// of findings, which are constants.
type metrics struct {
	requests *prometheus.CounterVec
	findings *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// newMetrics returns metrics that are registered with r; nil: nowhere.
func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_admission_requests_total",
			Help: "Requests of API servers, by endpoint, operation, verdict and HTTP code.",
		}, []string{"endpoint", "operation", "verdict", "code"}),
		findings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_admission_findings_total",
			Help: "What was found in objects, by its code (docs/admission.md).",
		}, []string{"code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "dnsconfigurer_admission_duration_seconds",
			Help:    "Time from a request's header to its answer.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8), // 100 us to 1.6 s
		}, []string{"endpoint"}),
	}
	for _, endpoint := range []string{endpointOf(PathValidate), endpointOf(PathMutate)} {
		m.duration.WithLabelValues(endpoint) // a series that is not there cannot be alerted on
		for _, operation := range []admission.Operation{admission.Create, admission.Update} {
			for _, v := range []verdict{verdictUnread, verdictPanicked} {
				m.requests.WithLabelValues(endpoint, string(operation), string(v), "200")
			}
		}
	}
	if r != nil {
		r.MustRegister(m.requests, m.findings, m.duration)
	}
	return m
}

func endpointOf(path string) string {
	switch path {
	case PathValidate, PathMutate:
		return path[1:]
	default:
		return "other"
	}
}

// observation is what is counted of a request.
type observation struct {
	endpoint  string
	operation string
	verdict   verdict
	code      int
	findings  []policy.Code
}

func (m *metrics) observe(o observation, took time.Duration) {
	m.requests.WithLabelValues(o.endpoint, o.operation, string(o.verdict), strconv.Itoa(o.code)).Inc()
	m.duration.WithLabelValues(o.endpoint).Observe(took.Seconds())
	for _, code := range o.findings {
		m.findings.WithLabelValues(string(code)).Inc()
	}
}
