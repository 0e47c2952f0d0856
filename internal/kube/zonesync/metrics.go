// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zonesync

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// serviceKind is a label: what the name of an EndpointSlice's Service stands for. The
// values are those of CoreDNS's metric of the same meaning.
type serviceKind string

const (
	clusterIP serviceKind = "cluster_ip"
	headless  serviceKind = "headless_with_selector" // without one nobody tells the time of a change
)

// newProgramming returns the histogram of the service level indicator "DNS programming
// latency" (kubernetes/community, sig-scalability/slos/dns_programming_latency.md).
func newProgramming() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "dnsconfigurer_dns_programming_duration_seconds",
		Help:    "Time from a change of a Service or a pod, as the endpoints' controller tells it, until the names have it.",
		Buckets: prometheus.ExponentialBuckets(.001, 2, 16), // up to half a minute
	}, []string{"service_kind"})
}

// collector reads how things stand with an API when metrics are asked for.
type collector struct {
	api                   *API
	silence, objects, age *prometheus.Desc
}

func newCollector(a *API) *collector {
	resource := []string{"resource"}
	return &collector{
		api: a,
		silence: prometheus.NewDesc("dnsconfigurer_dns_api_silence_seconds",
			"Time since the API server last sent an event, a bookmark or an answer, or since the start. Bookmarks come about once a minute.", resource, nil),
		objects: prometheus.NewDesc("dnsconfigurer_dns_objects", "Objects that the names are made of.", resource, nil),
		age: prometheus.NewDesc("dnsconfigurer_dns_snapshot_age_seconds",
			"Age of the snapshot that names are served from; 0: they are the API server's.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	out <- c.silence
	out <- c.objects
	out <- c.age
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	zone := c.api.cfg.Zone.Snapshot()
	for i, s := range c.api.Status() {
		heard := s.LastReply
		if heard.IsZero() {
			heard = c.api.made
		}
		gauge(c.silence, time.Since(heard).Seconds(), s.Resource)
		n := 0
		for range c.api.feeds[i].held(zone) {
			n++
		}
		gauge(c.objects, float64(n), s.Resource)
	}
	age := 0.0
	if at := zone.StaleSince(); !at.IsZero() {
		age = time.Since(at).Seconds()
	}
	gauge(c.age, age)
}
