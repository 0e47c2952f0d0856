// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// verdict is the outcome of a request: a label value.
type verdict string

const (
	verdictNone     verdict = "none"    // not a review
	verdictPassed   verdict = "passed"  // nothing to check, or to change
	verdictAllowed  verdict = "allowed" // checked, without a finding
	verdictWarned   verdict = "warned"  // allowed, with warnings
	verdictDenied   verdict = "denied"
	verdictPatched  verdict = "patched"  // allowed, and changed
	verdictUnread   verdict = "unread"   // allowed because it could not be read
	verdictPanicked verdict = "panicked" // allowed because of a panic
)

// operationNone is the operation of what is not a review, or has not been read.
const operationNone = "none"

// metrics counts requests. The label values are closed sets: two endpoints and "other", two
// operations, "other" and "none", the verdicts, the HTTP codes of Handler, and the codes of
// findings, which are constants.
type metrics struct {
	requests *prometheus.CounterVec
	findings *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// newMetrics returns metrics and registers them with r, unless r is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_admission_requests_total",
			Help: "Requests, by endpoint, operation, verdict and HTTP code.",
		}, []string{"endpoint", "operation", "verdict", "code"}),
		findings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_admission_findings_total",
			Help: "Findings in objects, by code (docs/checks.md).",
		}, []string{"code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "dnsconfigurer_admission_duration_seconds",
			Help:    "Time from the header of a request to its response.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8), // 100 us to 1.6 s
		}, []string{"endpoint"}),
	}
	for _, endpoint := range []string{endpointOf(PathValidate), endpointOf(PathMutate)} {
		m.duration.WithLabelValues(endpoint) // an alert needs the series to exist
		m.requests.WithLabelValues(endpoint, operationNone, string(verdictNone), strconv.Itoa(http.StatusServiceUnavailable))
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

// observation holds the label values of a request.
type observation struct {
	endpoint  string
	operation string
	verdict   verdict
	code      int
	findings  []policy.Code
}

func (m *metrics) observe(o observation, duration time.Duration) {
	m.requests.WithLabelValues(o.endpoint, o.operation, string(o.verdict), strconv.Itoa(o.code)).Inc()
	m.duration.WithLabelValues(o.endpoint).Observe(duration.Seconds())
	for _, code := range o.findings {
		m.findings.WithLabelValues(string(code)).Inc()
	}
}
