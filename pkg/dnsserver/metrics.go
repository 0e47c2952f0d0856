// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
)

// source is where an answer comes from, as a label.
type source string

const (
	fromHere     source = "server" // refused, malformed, minimal
	fromWalk     source = "autopath"
	fromZone     source = "zone"
	fromCache    source = "cache"
	fromStale    source = "stale"
	fromUpstream source = "upstream"
)

// metrics has closed label sets: transports, sources, the rcodes of RFC 1035 and what
// a look-up in the cache may find.
type metrics struct {
	queries  *prometheus.CounterVec
	duration *prometheus.HistogramVec
	panics   prometheus.Counter
	dropped  prometheus.Counter
	lookups  *prometheus.CounterVec
	autopath autopathMetrics
}

// autopathMetrics are what expansions cost. Its labels are closed too: how the search
// list came, the outcomes of a walk, and why an option was ignored.
type autopathMetrics struct {
	expansions *prometheus.CounterVec
	candidates prometheus.Histogram
	asked      prometheus.Histogram
	ignored    *prometheus.CounterVec
	sent       *prometheus.CounterVec
}

func newAutopathMetrics() autopathMetrics {
	m := autopathMetrics{
		expansions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_dns_autopath_expansions_total", Help: "Search lists walked for a query, by what gave the list (name, option) and result (found, nodata, absent, failed).",
		}, []string{"by", "result"}),
		candidates: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "dnsconfigurer_dns_autopath_candidates", Help: "Names looked at for one expansion.",
			Buckets: []float64{1, 2, 3, 4, 5, 6, 8, 16, 33},
		}),
		asked: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "dnsconfigurer_dns_autopath_questions", Help: "Questions of one expansion that neither the zone nor the cache answered.",
			Buckets: []float64{0, 2, 4, 8, 16, 32, 64, 99},
		}),
		ignored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_dns_autopath_ignored_total", Help: "SearchPaths options that were ignored, by reason (source, malformed).",
		}, []string{"reason"}),
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_dns_autopath_sent_total", Help: "Search lists sent to the cluster DNS, by result: expanded, silent (it does not know the option, we walked ourselves) or failed.",
		}, []string{"result"}),
	}
	for _, result := range []string{sentExpanded, sentSilent, sentFailed} {
		m.sent.WithLabelValues(result)
	}
	for _, by := range []string{byName, byOption} {
		for o := autopath.NXDomain; o <= autopath.Failed; o++ {
			m.expansions.WithLabelValues(by, o.String())
		}
	}
	for _, reason := range []string{ofStranger, ofNoSense} {
		m.ignored.WithLabelValues(reason)
	}
	return m
}

// newMetrics returns the metrics. onNode: of a server that has an Expander.
func newMetrics(r prometheus.Registerer, c *cache.Cache, onNode bool) *metrics {
	m := &metrics{
		queries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_dns_queries_total", Help: "Queries answered, by transport, source of the answer and rcode.",
		}, []string{"transport", "source", "rcode"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "dnsconfigurer_dns_query_duration_seconds", Help: "Time from a query's arrival to its reply, by source of the answer.",
			Buckets: []float64{.00001, .0001, .001, .01, .1, 1, 5},
		}, []string{"source"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dnsconfigurer_dns_panics_total", Help: "Queries whose handling panicked; they got no reply.",
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dnsconfigurer_dns_dropped_total", Help: "Packets that are no queries, and got no reply.",
		}),
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dnsconfigurer_dns_cache_lookups_total", Help: "Look-ups in the cache, by what was found: miss, fresh, expiring, stale or failing.",
		}, []string{"state"}),
		autopath: newAutopathMetrics(),
	}
	for state := cache.Miss; state <= cache.Failing; state++ {
		m.lookups.WithLabelValues(state.String()) // a series that is not there cannot be alerted on
	}
	if r != nil {
		r.MustRegister(m.queries, m.duration, m.panics, m.dropped, m.lookups)
		r.MustRegister(cacheStats(c)...)
		r.MustRegister(m.autopath.expansions, m.autopath.candidates, m.autopath.asked, m.autopath.ignored)
		if onNode {
			r.MustRegister(m.autopath.sent)
		}
	}
	return m
}

// cacheStats are the figures that c keeps itself.
func cacheStats(c *cache.Cache) []prometheus.Collector {
	gauge := func(name, help string, value func(cache.Stats) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value(c.Stats())) })
	}
	return []prometheus.Collector{
		gauge("dnsconfigurer_dns_cache_entries", "Replies in the cache, those past their TTL included.", func(s cache.Stats) int { return s.Entries }),
		gauge("dnsconfigurer_dns_cache_bytes", "Memory that the replies in the cache take.", func(s cache.Stats) int { return s.Bytes }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "dnsconfigurer_dns_cache_evictions_total", Help: "Replies that made room in the cache for others.",
		}, func() float64 { return float64(c.Stats().Evictions) }),
	}
}

func (m *metrics) observe(via transport, a answer, took time.Duration) {
	m.queries.WithLabelValues(via.String(), string(a.source), rcodeLabel(a.rcode)).Inc()
	m.duration.WithLabelValues(string(a.source)).Observe(took.Seconds())
}

func rcodeLabel(rcode int) string {
	switch rcode {
	case dns.RcodeSuccess, dns.RcodeFormatError, dns.RcodeServerFailure, dns.RcodeNameError, dns.RcodeNotImplemented, dns.RcodeRefused, dns.RcodeBadVers:
		return dns.RcodeToString[rcode]
	}
	return "other"
}
