// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"sync"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the metrics of all clients of a process; no two have the same Config.Zone.
//
// The labels zone and server come from the configuration or the host's resolv.conf; their
// series are deleted with the server. The other labels are closed sets.
type Metrics struct {
	attempts *prometheus.CounterVec
	duration *prometheus.HistogramVec
	down     *prometheus.Desc
	looping  *prometheus.Desc

	running sync.Map // *Client, of those that run
}

// NewMetrics returns metrics that are registered with r. It panics if they are
// registered already, as prometheus does.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_dns_upstream_attempts_total",
			Help: "Queries sent to upstream servers, by the zone they serve, server, network and outcome. " +
				"overtaken: another server replied; abandoned: no client waits any more.",
		}, []string{"zone", "server", "network", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "dnsconfigurer_dns_upstream_attempt_duration_seconds",
			Help:    "Time until the reply of an upstream server or the end of the wait for it.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2},
		}, []string{"zone", "server"}),
		down: prometheus.NewDesc("dnsconfigurer_dns_upstream_resting",
			"1 if the upstream server is down after failures and is tried last, else 0.", []string{"zone", "server"}, nil),
		looping: prometheus.NewDesc("dnsconfigurer_dns_upstream_looping",
			"1 if the upstream server is in a forwarding loop and not used, else 0.", []string{"zone", "server"}, nil),
	}
	r.MustRegister(m)
	return m
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	m.attempts.Describe(out)
	m.duration.Describe(out)
	out <- m.down
	out <- m.looping
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.attempts.Collect(out)
	m.duration.Collect(out)
	gauge := func(d *prometheus.Desc, is bool, zone string, s Server) {
		value := 0.0
		if is {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, zone, s.String())
	}
	for running := range m.running.Range {
		c := running.(*Client)
		for _, s := range c.Status() {
			gauge(m.down, s.Down, c.cfg.Zone, s.Server)
			gauge(m.looping, s.Looping, c.cfg.Zone, s.Server)
		}
	}
}

// deleteSeries deletes all series with these labels.
func (m *Metrics) deleteSeries(labels prometheus.Labels) {
	m.attempts.DeletePartialMatch(labels)
	m.duration.DeletePartialMatch(labels)
}

// outcome returns the result of an attempt, as a label.
func outcome(ctx context.Context, reply *dns.Msg, err error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errOvertaken):
		return "overtaken" // another server replied while this one was silent
	case errors.Is(err, context.Canceled):
		return "abandoned" // no query waited for the reply any more
	case errors.Is(err, errUseTCP):
		return "truncated" // TCP follows
	case errors.Is(err, ErrMalformed):
		return "malformed"
	case errors.As(err, &timeout) && timeout.Timeout(): // also context.DeadlineExceeded
		return "timeout"
	case err != nil:
		return "unreachable" // an error of the network, the connection or the certificate
	}
	switch reply.Rcode {
	case dns.RcodeSuccess, dns.RcodeNameError:
		return "answered"
	case dns.RcodeServerFailure:
		return "servfail"
	case dns.RcodeRefused:
		return "refused"
	}
	return "other_rcode" // such as FORMERR and NOTIMP
}
