// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
)

// source is where an answer comes from.
type source uint8

const (
	fromServer   source = iota // this server itself: rejections, refusals, local names, probes, queries of type ANY
	fromWalk                   // the expansion of a search list
	fromZone                   // the zone
	fromCache                  // the cache, within the TTL
	fromStale                  // the cache, after the TTL
	fromUpstream               // other servers
	fromLastGood               // the cache, while other servers deny the name
	fromHosts                  // SetHosts
	fromRules                  // SetRules
	numSources
)

// String returns the source as a label of metrics.
func (s source) String() string {
	return [...]string{"server", "autopath", "zone", "cache", "stale", "upstream", "last_known_good", "hosts", "rules"}[s]
}

// metrics are the metrics of a server. Their label sets are closed, so that clients cannot
// create series: transports, sources, the rcodes of rcodeLabels and the states of cache entries.
type metrics struct {
	queries      *prometheus.CounterVec
	duration     [numSources]prometheus.Observer
	panics       prometheus.Counter
	dropped      prometheus.Counter
	partial      prometheus.Counter
	sendWaits    prometheus.Counter
	acceptErrors prometheus.Counter
	closed       [numCloseReasons]prometheus.Counter
	cacheLookups [cache.Failing + 1]prometheus.Counter
	refusals     [numKinds][numRefusals]prometheus.Counter
	autopath     autopathMetrics

	partialLogged atomic.Int64 // time of the last warning about an RRset that did not fit, in Unix nanoseconds

	// counters caches the counters of queries after their first use: a lookup by labels takes as long as an answer.
	counters [overTCP + 1][numSources][len(rcodeLabels)]atomic.Pointer[prometheus.Counter]
}

// rcodeLabels are the rcodes with a label of their own: those of RFC 1035 and BADVERS.
var rcodeLabels = [...]int{
	dns.RcodeSuccess, dns.RcodeFormatError, dns.RcodeServerFailure, dns.RcodeNameError, dns.RcodeNotImplemented, dns.RcodeRefused,
	dns.RcodeBadVers, otherRcode,
}

// otherRcode is the element of rcodeLabels for all other rcodes.
const otherRcode = -1

// autopathMetrics are the metrics of expansions. Their label sets are closed, too.
type autopathMetrics struct {
	expansions *prometheus.CounterVec
	candidates prometheus.Histogram
	forwarded  prometheus.Histogram
	ignored    *prometheus.CounterVec
	sent       *prometheus.CounterVec
}

// newMetrics returns the metrics, registered with r unless that is nil. Only a node cache sends search lists, and
// only a cluster DNS server has a zone.
func newMetrics(r prometheus.Registerer, nodeCache bool) *metrics {
	auto, zone, sender := promauto.With(r), promauto.With(r), promauto.With(nil)
	if nodeCache {
		zone, sender = sender, zone
	}
	counter := func(auto promauto.Factory, name, help string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(auto promauto.Factory, name, help string, labels ...string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		queries: counters(auto, "dnsconfigurer_dns_queries_total", "Queries answered, by transport, source of the answer and rcode.",
			"transport", "source", "rcode"),
		panics: counter(auto, "dnsconfigurer_dns_panics_total",
			"Panics while answering a query or renewing a cached reply. The query may get no reply."),
		dropped: counter(auto, "dnsconfigurer_dns_dropped_total",
			"Packets that are not queries, and queries that acl drops; they got no reply."),
		// It counts partial RRsets. In RFC 9499 a zone cut is the border of two zones. The name stays for
		// existing alerts.
		partial: counter(zone, "dnsconfigurer_dns_zone_cut_total",
			"Replies over TCP with a part of an RRset of the cluster zone, because the whole does not fit."),
		sendWaits: counter(auto, "dnsconfigurer_dns_udp_send_waits_total",
			"Times that a batch of replies over UDP waited for room in the send buffer of the socket."),
		acceptErrors: counter(auto, "dnsconfigurer_dns_tcp_accept_errors_total",
			"Failed attempts to accept a TCP connection, most often because no file descriptor is free."),
		autopath: autopathMetrics{
			expansions: counters(auto, "dnsconfigurer_dns_autopath_expansions_total",
				"Search lists expanded for a query, by the source of the list (name, option) and result (found, nodata, absent, failed).",
				"by", "result"),
			candidates: auto.NewHistogram(prometheus.HistogramOpts{
				Name: "dnsconfigurer_dns_autopath_candidates", Help: "Candidate names tried by an expansion.",
				Buckets: []float64{1, 2, 3, 4, 5, 6, 8, 16, 33},
			}),
			forwarded: auto.NewHistogram(prometheus.HistogramOpts{
				Name: "dnsconfigurer_dns_autopath_questions", Help: "Queries to other servers that an expansion needed.",
				Buckets: []float64{0, 2, 4, 8, 16, 32, 64, 99},
			}),
			ignored: counters(auto, "dnsconfigurer_dns_autopath_ignored_total",
				"SearchPaths options that were ignored, by reason (source, malformed, length).", "reason"),
			sent: counters(sender, "dnsconfigurer_dns_autopath_sent_total",
				"Search lists sent to the cluster DNS server, by result: expanded, silent (it ignored the option), "+
					"refused (it is at a limit) or failed. After silent and refused the node cache expands the list itself.", "result"),
		},
	}
	duration := auto.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "dnsconfigurer_dns_query_duration_seconds",
		Help:    "Time from the arrival of a query to its reply, by source of the answer.",
		Buckets: []float64{.00001, .0001, .001, .01, .1, 1, 5},
	}, []string{"source"})
	for from := range numSources {
		m.duration[from] = duration.WithLabelValues(from.String())
	}
	m.initCounters(
		counters(auto, "dnsconfigurer_dns_cache_lookups_total",
			"Cache lookups, by state of the entry: miss, fresh, expiring, stale or failing.", "state"),
		counters(auto, "dnsconfigurer_dns_tcp_closed_total",
			"TCP connections that the server closed at a limit, by reason (connections, queries, replies, slow).", "reason"),
		counters(auto, "dnsconfigurer_dns_refusals_total",
			"Queries that were not sent to other servers, or given up, by kind of name (cluster, reverse, search, and plain for all "+
				"other names) and reason (budget, loop, no_servers, recursion, questions, replaced, upstream, resources).",
			"budget", "reason"))
	return m
}

// initCounters creates the series of all labels: a series that does not exist cannot be alerted on.
func (m *metrics) initCounters(lookups, closed, refusals *prometheus.CounterVec) {
	for state := range m.cacheLookups {
		m.cacheLookups[state] = lookups.WithLabelValues(cache.State(state).String())
	}
	for reason := range m.closed {
		m.closed[reason] = closed.WithLabelValues(closeReason(reason).String())
	}
	for kind := range m.refusals {
		for reason := refusedLimit; reason < numRefusals; reason++ {
			m.refusals[kind][reason] = refusals.WithLabelValues(queryKind(kind).String(), reason.String())
		}
	}
	for _, result := range []string{sentExpanded, sentIgnored, sentRefused, sentFailed} {
		m.autopath.sent.WithLabelValues(result)
	}
	for _, by := range []string{byName, byOption} {
		for o := nxdomain; o <= unresolved; o++ {
			m.autopath.expansions.WithLabelValues(by, o.String())
		}
	}
	for _, reason := range []string{reasonSource, reasonMalformed, reasonLength} {
		m.autopath.ignored.WithLabelValues(reason)
	}
}

// registerState registers metrics that read the state of the server, unless r is nil.
func (s *Server) registerState(r prometheus.Registerer) {
	auto := promauto.With(r)
	for kind := range numKinds {
		auto.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "dnsconfigurer_dns_slots_in_use",
			Help:        "Queries that wait for other servers, by kind of name: plain, cluster, reverse or search.",
			ConstLabels: prometheus.Labels{"budget": kind.String()},
		}, func() float64 { return float64(s.queries.inUseBy(kind)) })
	}
	for _, gauge := range []struct {
		name, help string
		value      func() int
	}{
		{"dnsconfigurer_dns_slots_limit", "Queries of all kinds that may wait for other servers.", func() int { return s.queries.limit }},
		{"dnsconfigurer_dns_cache_entries", "Replies in the cache, including those past their TTL.",
			func() int { return s.cfg.Cache.Stats().Entries }},
		{"dnsconfigurer_dns_cache_bytes", "Memory used by the replies in the cache.", func() int { return s.cfg.Cache.Stats().Bytes }},
		{"dnsconfigurer_dns_tcp_connections", "Open TCP connections of clients.", s.streams.connections.inUse},
		{"dnsconfigurer_dns_tcp_queries_in_flight",
			"Queries over TCP that wait for other servers, or for their client to read earlier replies.", s.streams.queries.inUse},
		{"dnsconfigurer_dns_tcp_replies_waiting",
			"Replies over TCP of more than 512 octets that wait for their client to read them.", s.streams.replies.inUse},
	} {
		auto.NewGaugeFunc(prometheus.GaugeOpts{Name: gauge.name, Help: gauge.help}, func() float64 { return float64(gauge.value()) })
	}
	auto.NewCounterFunc(prometheus.CounterOpts{
		Name: "dnsconfigurer_dns_cache_evictions_total", Help: "Replies evicted from the cache to make room for others.",
	}, func() float64 { return float64(s.cfg.Cache.Stats().Evictions) })
	auto.NewCounterFunc(prometheus.CounterOpts{
		Name: "dnsconfigurer_dns_udp_receive_drops_total",
		Help: "Packets over UDP that the kernel dropped, because the receive buffer of the socket was full. Linux only.",
	}, func() float64 { return float64(s.receiveDrops.count()) })
}

// observe counts a reply and its duration.
func (m *metrics) observe(via transport, r reply, took time.Duration) {
	index := slices.Index(rcodeLabels[:], r.rcode)
	if index < 0 {
		index = len(rcodeLabels) - 1
	}
	counter := m.counters[via][r.source][index].Load()
	if counter == nil {
		label := "other"
		if rcode := rcodeLabels[index]; rcode != otherRcode {
			label = dns.RcodeToString[rcode]
		}
		c := m.queries.WithLabelValues(via.String(), r.source.String(), label)
		counter = &c
		m.counters[via][r.source][index].Store(counter)
	}
	(*counter).Inc()
	m.duration[r.source].Observe(took.Seconds())
}

// observeReply counts and logs the reply to q if there is one.
func (s *Server) observeReply(q *query, r reply) {
	if r.wire == nil {
		return
	}
	s.metrics.observe(q.via, r, time.Since(q.received))
	s.waited.count(q, &r, s.hostDomains())
	if l := s.queryLog.Load(); l != nil {
		if line := l.append(nil, q, &r); line != nil {
			l.Write(line)
		}
	}
}
