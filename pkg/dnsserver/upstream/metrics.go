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

// Metrics tells of what clients do and of how their servers do. One is shared by all
// clients of a process, of which no two have the same LoopZone; nil tells nothing.
//
// The labels zone and server are what the operator has written, or the host's
// resolv.conf, and their series go when a server is no longer asked. The others are
// closed sets.
type Metrics struct {
	attempts *prometheus.CounterVec
	duration *prometheus.HistogramVec
	resting  *prometheus.Desc
	looping  *prometheus.Desc

	mu      sync.Mutex
	clients map[*Client]bool // that run
}

// outcome is what became of one transmission, as a label.
type outcome string

const (
	answered    outcome = "answered"    // NOERROR or NXDOMAIN
	truncated   outcome = "truncated"   // TCP follows
	servfail    outcome = "servfail"    // the server has no answer
	refused     outcome = "refused"     // it does not answer us
	otherRcode  outcome = "other_rcode" // as FORMERR and NOTIMP
	timedOut    outcome = "timeout"     // nothing came in time
	unreachable outcome = "unreachable" // the network, the connection or its certificate said no
)

// NewMetrics returns metrics that are registered with r. It panics when they are
// registered there already, as prometheus does.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_dns_upstream_attempts_total",
			Help: "Transmissions to upstream servers, by zone they are asked for, server, network and outcome.",
		}, []string{"zone", "server", "network", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "dnsconfigurer_dns_upstream_attempt_duration_seconds",
			Help:    "Time until an upstream server's reply, or until none was waited for any more.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2},
		}, []string{"zone", "server"}),
		resting: prometheus.NewDesc("dnsconfigurer_dns_upstream_resting",
			"1 if the upstream server has failed and others are asked first, else 0.", []string{"zone", "server"}, nil),
		looping: prometheus.NewDesc("dnsconfigurer_dns_upstream_looping",
			"1 if the upstream server sends our queries back to us and is not asked, else 0.", []string{"zone", "server"}, nil),
		clients: map[*Client]bool{},
	}
	r.MustRegister(m)
	return m
}

// Describe is for the registry.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	m.attempts.Describe(out)
	m.duration.Describe(out)
	out <- m.resting
	out <- m.looping
}

// Collect is for the registry.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.attempts.Collect(out)
	m.duration.Collect(out)
	m.mu.Lock()
	defer m.mu.Unlock()
	gauge := func(d *prometheus.Desc, is bool, zone string, s Server) {
		value := 0.0
		if is {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, zone, s.String())
	}
	for c := range m.clients {
		for _, s := range c.Status() {
			gauge(m.resting, s.Down, c.cfg.Zone, s.Server)
			gauge(m.looping, s.Looping, c.cfg.Zone, s.Server)
		}
	}
}

// follow tells of the servers of c, until the function that it returns is called.
func (m *Metrics) follow(c *Client) (end func()) {
	if m == nil {
		return func() {}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clients[c] = true
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.clients, c)
		m.forget(prometheus.Labels{"zone": c.cfg.Zone})
	}
}

// forget deletes the series that have these labels.
func (m *Metrics) forget(labels prometheus.Labels) {
	if m != nil {
		m.attempts.DeletePartialMatch(labels)
		m.duration.DeletePartialMatch(labels)
	}
}

func (m *Metrics) attempt(zone string, a Attempt) {
	if m == nil || errors.Is(a.Err, context.Canceled) {
		return // we are about to end
	}
	server := a.Server.String()
	m.attempts.WithLabelValues(zone, server, a.Network, string(outcomeOf(a))).Inc()
	m.duration.WithLabelValues(zone, server).Observe(a.Duration.Seconds())
}

func outcomeOf(a Attempt) outcome {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(a.Err, errUseTCP):
		return truncated
	case errors.As(a.Err, &timeout) && timeout.Timeout(): // also of the context
		return timedOut
	case a.Err != nil:
		return unreachable
	case a.Reply.Rcode == dns.RcodeSuccess, a.Reply.Rcode == dns.RcodeNameError:
		return answered
	case a.Reply.Rcode == dns.RcodeServerFailure:
		return servfail
	case a.Reply.Rcode == dns.RcodeRefused:
		return refused
	}
	return otherRcode
}
