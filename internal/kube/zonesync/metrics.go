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

// register registers the metrics of s.
func (s *Syncer) register(r prometheus.Registerer) {
	r.MustRegister(s.programming)
	gauge := func(name, help, resource string, value func() float64) {
		opts := prometheus.GaugeOpts{Name: name, Help: help}
		if resource != "" {
			opts.ConstLabels = prometheus.Labels{"resource": resource}
		}
		r.MustRegister(prometheus.NewGaugeFunc(opts, value))
	}
	for _, i := range s.informers {
		gauge("dnsconfigurer_dns_api_silence_seconds",
			"Time since the last event, bookmark or response of the API server, or since the start. "+
				"Bookmarks arrive about once a minute.", i.name, func() float64 {
				if ns := i.lastReply.Load(); ns != 0 {
					return time.Since(time.Unix(0, ns)).Seconds()
				}
				return time.Since(s.created).Seconds()
			})
		gauge("dnsconfigurer_dns_objects", "Objects in the zone.", i.name, func() (n float64) {
			for range i.list(s.cfg.Zone.Snapshot()) {
				n++
			}
			return n
		})
	}
	gauge("dnsconfigurer_dns_snapshot_age_seconds",
		"Age of the snapshot from which names are served; 0: names are from the API server.", "", func() float64 {
			if at := s.cfg.Zone.Snapshot().StaleSince(); !at.IsZero() {
				return time.Since(at).Seconds()
			}
			return 0
		})
}
