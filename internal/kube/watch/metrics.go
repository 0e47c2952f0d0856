// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import "github.com/prometheus/client_golang/prometheus"

// size is the class of a request for a pod.
type size string

// The sizes.
const (
	small size = "small"
	large size = "large"
)

// requestResult is the result of a request for a pod.
type requestResult string

// The results.
const (
	requestFound    requestResult = "found"
	requestNotFound requestResult = "not_found"
	requestTooLarge requestResult = "too_large" // a small request is sent again as a large one
	requestFailed   requestResult = "failed"
	requestNoSlot   requestResult = "no_slot"  // not sent: others were waited for until the lookup ended
	requestNotSent  requestResult = "not_sent" // the API server does not respond
)

// Metrics counts the requests of a [Pods] for single pods. A nil Metrics counts nothing.
type Metrics struct{ requests *prometheus.CounterVec }

// NewMetrics returns metrics whose names begin with prefix, registered with r. It panics if r has
// them already.
func NewMetrics(r prometheus.Registerer, prefix string) *Metrics {
	m := &Metrics{requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "pod_requests_total",
		Help: "Requests to the API server for single pods, by size of the object and result.",
	}, []string{"size", "result"})}
	for _, s := range []size{small, large} {
		for _, result := range []requestResult{
			requestFound, requestNotFound, requestTooLarge, requestFailed, requestNoSlot, requestNotSent,
		} {
			m.requests.WithLabelValues(string(s), string(result)) // an alert needs the series before the first event
		}
	}
	r.MustRegister(m.requests)
	return m
}

func (m *Metrics) count(s size, r requestResult) {
	if m != nil {
		m.requests.WithLabelValues(string(s), string(r)).Inc()
	}
}
