// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the metrics of all clients of a process; no two have the same
// Config.Zone. A nil *Metrics records nothing.
//
// The labels zone and server come from the configuration or the host's resolv.conf; their
// series are deleted with the server. The other labels are closed sets.
type Metrics struct {
	attempts *prometheus.CounterVec
	duration *prometheus.HistogramVec
	down     *prometheus.Desc
	looping  *prometheus.Desc

	mu      sync.Mutex
	clients map[*Client]bool // running
}

// attempt is one transmission to one server.
type attempt struct {
	zone     string
	server   Server
	network  string // "udp", "tcp" or "tls"
	duration time.Duration
	reply    *dns.Msg // nil: none
	err      error    // errUseTCP: the reply is truncated and TCP follows

	overtaken bool // err is due to the reply of another server
}

// outcome is the result of an attempt, as a label.
type outcome string

const (
	outcomeAnswered    outcome = "answered"    // NOERROR or NXDOMAIN
	outcomeTruncated   outcome = "truncated"   // TCP follows
	outcomeServfail    outcome = "servfail"    // SERVFAIL
	outcomeRefused     outcome = "refused"     // REFUSED
	outcomeOtherRcode  outcome = "other_rcode" // such as FORMERR and NOTIMP
	outcomeMalformed   outcome = "malformed"   // a reply that cannot be parsed
	outcomeTimeout     outcome = "timeout"     // no reply in time
	outcomeOvertaken   outcome = "overtaken"   // another server replied while this one was silent
	outcomeAbandoned   outcome = "abandoned"   // no query waited for the reply any more
	outcomeUnreachable outcome = "unreachable" // an error of the network, the connection or the certificate
)

// NewMetrics returns metrics that are registered with r. It panics if they are
// registered already, as prometheus does.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_dns_upstream_attempts_total",
			Help: "Queries sent to upstream servers, by the zone they serve, server, network and outcome.",
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
		clients: map[*Client]bool{},
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
			gauge(m.down, s.Down, c.cfg.Zone, s.Server)
			gauge(m.looping, s.Looping, c.cfg.Zone, s.Server)
		}
	}
}

// register adds the servers of c to the metrics, until the returned function is called.
func (m *Metrics) register(c *Client) (unregister func()) {
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
		m.deleteSeries(prometheus.Labels{"zone": c.cfg.Zone})
	}
}

// deleteSeries deletes all series with these labels.
func (m *Metrics) deleteSeries(labels prometheus.Labels) {
	if m != nil {
		m.attempts.DeletePartialMatch(labels)
		m.duration.DeletePartialMatch(labels)
	}
}

func (m *Metrics) observe(a attempt) {
	if m == nil {
		return
	}
	server := a.server.String()
	m.attempts.WithLabelValues(a.zone, server, a.network, string(a.outcome())).Inc()
	m.duration.WithLabelValues(a.zone, server).Observe(a.duration.Seconds())
}

func (a *attempt) outcome() outcome {
	var timeout interface{ Timeout() bool }
	switch {
	case a.overtaken:
		return outcomeOvertaken
	case errors.Is(a.err, context.Canceled):
		return outcomeAbandoned
	case errors.Is(a.err, errUseTCP):
		return outcomeTruncated
	case errors.Is(a.err, ErrMalformed):
		return outcomeMalformed
	case errors.As(a.err, &timeout) && timeout.Timeout(): // also context.DeadlineExceeded
		return outcomeTimeout
	case a.err != nil:
		return outcomeUnreachable
	case a.reply.Rcode == dns.RcodeSuccess, a.reply.Rcode == dns.RcodeNameError:
		return outcomeAnswered
	case a.reply.Rcode == dns.RcodeServerFailure:
		return outcomeServfail
	case a.reply.Rcode == dns.RcodeRefused:
		return outcomeRefused
	}
	return outcomeOtherRcode
}
