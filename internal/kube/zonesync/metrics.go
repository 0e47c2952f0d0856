// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zonesync

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// serviceKind is a label value: the kind of an EndpointSlice's Service. The values are
// those of the equivalent metric of CoreDNS.
type serviceKind string

const (
	clusterIP serviceKind = "cluster_ip"
	headless  serviceKind = "headless_with_selector" // without a selector, the time of a change is not known
)

// newProgramming returns the histogram of the service level indicator "DNS programming
// latency" (kubernetes/community, sig-scalability/slos/dns_programming_latency.md).
func newProgramming() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "dnsconfigurer_dns_programming_duration_seconds",
		Help:    "Time from the change of a Service or pod, as the EndpointSlice records it, until the zone has it.",
		Buckets: prometheus.ExponentialBuckets(.001, 2, 16), // up to 32 s
	}, []string{"service_kind"})
}

// collector exports the state of a Syncer.
type collector struct {
	syncer                *Syncer
	silence, objects, age *prometheus.Desc
}

func newCollector(s *Syncer) *collector {
	resource := []string{"resource"}
	return &collector{
		syncer: s,
		silence: prometheus.NewDesc("dnsconfigurer_dns_api_silence_seconds",
			"Time since the last event, bookmark or response of the API server, or since the start. "+
				"Bookmarks arrive about once a minute.", resource, nil),
		objects: prometheus.NewDesc("dnsconfigurer_dns_objects", "Objects in the zone.", resource, nil),
		age: prometheus.NewDesc("dnsconfigurer_dns_snapshot_age_seconds",
			"Age of the snapshot from which names are served; 0: names are from the API server.", nil, nil),
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
	zone := c.syncer.cfg.Zone.Snapshot()
	for i, s := range c.syncer.Status() {
		last := s.LastReply
		if last.IsZero() {
			last = c.syncer.created
		}
		gauge(c.silence, time.Since(last).Seconds(), s.Resource)
		n := 0
		for range c.syncer.informers[i].list(zone) {
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
