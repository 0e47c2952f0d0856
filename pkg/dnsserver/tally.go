// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
)

// tally counts what a reader answers by itself, until the batch is done. It is one
// goroutine's.
type tally struct {
	metrics *metrics
	sources [len(tallied)]struct {
		answers  [maxRcode + 1]int
		queries  [maxRcode + 1]prometheus.Counter // by rcode, made when first needed
		duration prometheus.Observer
	}
	hits [cache.Failing + 1]int // in the cache, by state
}

// The sources of a reader's answers.
const (
	tallyZone = iota
	tallyCache
)

var tallied = [...]source{tallyZone: fromZone, tallyCache: fromCache}

const maxRcode = 15 // of those that a header has room for

// count counts an answer of the source tallied[from].
func (t *tally) count(from, rcode int) { t.sources[from].answers[rcode]++ }

// flush hands on what was counted, each with the time that its batch took.
func (t *tally) flush(took time.Duration) {
	for i := range t.sources {
		s := &t.sources[i]
		for rcode, n := range s.answers {
			if n == 0 {
				continue
			}
			if s.queries[rcode] == nil {
				s.queries[rcode] = t.metrics.queries.WithLabelValues(overUDP.String(), string(tallied[i]), rcodeLabel(rcode))
				s.duration = t.metrics.duration.WithLabelValues(string(tallied[i]))
			}
			s.queries[rcode].Add(float64(n))
			for range n {
				s.duration.Observe(took.Seconds())
			}
			s.answers[rcode] = 0
		}
	}
	for state, n := range t.hits {
		if n > 0 {
			t.metrics.lookups.WithLabelValues(cache.State(state).String()).Add(float64(n))
			t.hits[state] = 0
		}
	}
}
