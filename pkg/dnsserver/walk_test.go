// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// script determines the findings about candidates, one step for each: "absent", "nodata",
// "found", "failed", "limit" or "subqueries" (refused), then after a colon how long other servers take to reply. The prefix
// "cluster/" marks a name of the cluster. The candidates are named 0, 1, 2 and so on.
type script struct {
	steps      []string
	queried    []atomic.Bool // other servers, for the candidate
	waiting    atomic.Int32
	maxWaiting atomic.Int32 // the maximum of waiting

	clientCanExpand bool
}

// run tries the candidates of the script as Server.walk does.
func (s *script) run(ctx context.Context, t *testing.T) (lookupResult, *walk) {
	t.Helper()
	w := &walk{lookup: s.lookup, clientCanExpand: s.clientCanExpand, recoverPanic: func() {}}
	for i := range s.steps {
		w.candidates = append(w.candidates, mustName(t, fmt.Sprint(i)))
	}
	if !w.advance() {
		w.await(ctx)
	}
	return w.conclude(), w
}

func parseScript(text string) *script {
	words := strings.Fields(text)
	return &script{steps: words, queried: make([]atomic.Bool, len(words))}
}

func (s *script) lookup(name fqdn.Name) (lookupResult, func(context.Context) lookupResult) {
	i := 0
	fmt.Sscan(name.String(), &i)
	word, after, waits := strings.Cut(s.steps[i], ":")
	word, cluster := strings.CutPrefix(word, "cluster/")
	lr := lookupResult{answer: failure(fromServer, 0, fmt.Sprint(i)), ttl: uint32(10 * (i + 1)), cluster: cluster}
	lr.outcome = outcome(slices.Index([]string{"absent", "nodata", "found", "failed"}, word))
	switch word {
	case "limit":
		lr.outcome, lr.answer.refused = unresolved, refusedLimit
	case "subqueries":
		lr.outcome, lr.answer.refused = unresolved, refusedSubqueries
	}
	if !waits {
		return lr, nil
	}
	took, err := time.ParseDuration(after)
	if err != nil {
		panic(err)
	}
	return lookupResult{cluster: cluster}, func(ctx context.Context) lookupResult {
		s.queried[i].Store(true)
		s.maxWaiting.Store(max(s.maxWaiting.Load(), s.waiting.Add(1)))
		defer s.waiting.Add(-1)
		select {
		case <-time.After(took):
			return lr
		case <-ctx.Done():
			return lookupResult{outcome: unresolved, answer: failure(fromServer, 0, "late")}
		}
	}
}

// TestWalk compares the results of walks: the outcome, the candidate with the answer, the TTL,
// the candidates that other servers were queried for, and the time.
func TestWalk(t *testing.T) {
	tests := []struct{ name, script, want string }{
		{"the first is found", "cluster/found found:1s", "found 0, any TTL"},
		{"an absent name is passed over until its TTL ends", "cluster/absent cluster/absent found", "found 2, TTL 10"},
		{"the shortest negative TTL limits the result", "absent:1s cluster/absent found:1s", "found 2, TTL 10, queried 0 2, 1s"},
		{"NODATA is passed over", "cluster/nodata found", "found 1, TTL 10"},
		{"NODATA is remembered", "cluster/nodata absent", "nodata 1, TTL 10"},
		{"no candidate exists", "cluster/absent absent", "absent 1, TTL 10"},
		{"no candidates", "", "absent , any TTL"},

		{"the cluster fails", "cluster/absent cluster/failed found", "failed 1, TTL 10"},
		{"the cluster fails after a found name", "cluster/found cluster/failed", "found 0, any TTL"},
		{"the cluster fails after a found host suffix", "found:1s cluster/failed", "found 0, any TTL, queried 0, 1s"},
		{"the cluster fails after an absent host suffix", "absent:1s cluster/failed", "failed 1, TTL 10, queried 0, 1s"},
		{"a host suffix fails, a later name is found: not cached", "cluster/absent failed found", "found 2, TTL 0"},
		{"a host suffix fails, nothing is found", "cluster/absent failed absent", "failed 1, TTL 0"},
		{"a host suffix fails, NODATA", "cluster/nodata failed absent", "failed 1, TTL 0"},
		{"a host suffix fails after a found name", "found failed", "found 0, any TTL"},
		{"the bare name fails", "cluster/absent absent failed", "failed 2, TTL 0"},

		{"other servers are queried at the same time", "cluster/absent absent:1s absent:2s found:1s", "found 3, TTL 10, queried 1 2 3, 2s"},
		{"the first candidate found wins, not the fastest reply", "found:2s found:1s", "found 0, any TTL, queried 0 1, 2s"},
		{"a walk does not wait for candidates after a found name", "found:1s found:2s failed:3s", "found 0, any TTL, queried 0 1 2, 1s"},
		{"no server is queried after a known name", "found failed:1s", "found 0, any TTL"},
		{"no server is queried after a found name of the cluster", "absent:1s cluster/found found:1s", "found 1, TTL 10, queried 0, 1s"},
		{"other servers are queried after an external name is resolved", "cluster/found:1s found:1s", "found 0, any TTL, queried 0, 1s"},
		{"an external name is absent", "cluster/absent:1s found:1s", "found 1, TTL 10, queried 0 1, 2s"},
		{"an external name fails", "cluster/failed:1s found:1s", "failed 0, any TTL, queried 0, 1s"},

		{"in time", "found:3999ms", "found 0, any TTL, queried 0, 3.999s"},
		{"too late", "found:4001ms", "failed late, TTL 0, queried 0, 4s"},
		{"too late, but a later name is found", "absent:9s found:1s", "found 1, TTL 0, queried 0 1, 4s"},
		{"an external name that takes too long", "cluster/found:9s found", "failed late, any TTL, queried 0, 4s"},
		{"the time of an external name is part of the limit", "cluster/absent:3s found:2s", "failed late, TTL 0, queried 0 1, 4s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				s := parseScript(tt.script)
				r, _ := s.run(t.Context(), t)
				candidate := ""
				if r.answer.extended != nil {
					candidate = r.answer.extended.ExtraText
				}
				got := fmt.Sprintf("%v %v, TTL %d", r.outcome, candidate, r.ttl)
				got = strings.Replace(got, fmt.Sprintf("TTL %d", uint32(noLimit)), "any TTL", 1)
				queried := ""
				for i := range s.queried {
					if s.queried[i].Load() {
						queried += fmt.Sprintf(" %d", i)
					}
				}
				if queried != "" {
					got += ", queried" + queried
				}
				if took := time.Since(begin); took > 0 {
					got += fmt.Sprintf(", %v", took)
				}
				if got != tt.want {
					t.Errorf("%s\n got %s\nwant %s", tt.script, got, tt.want)
				}
				if (r.outcome == found) != (r.name != "") {
					t.Errorf("%s: got the outcome %v with the name %q", tt.script, r.outcome, r.name)
				}
				if s.waiting.Load() != 0 {
					t.Errorf("%s: %d questions are still waiting after the walk", tt.script, s.waiting.Load())
				}
			})
		})
	}
}

// TestWalk_Waves compares how many candidates are queried for at the same time, and when a walk
// ends whose candidates other servers answer.
func TestWalk_Waves(t *testing.T) {
	for _, tt := range []struct {
		name, script  string
		candidate     string // which is found
		tried, atOnce int
		took          time.Duration
	}{
		{"the maximum of candidates", strings.Repeat("absent:100ms ", MaxHostSuffixes) + "found:100ms", "8", 9, 3, 300 * time.Millisecond},
		{"found in the first wave", "absent:100ms absent:100ms found:100ms found:1s found:1s", "2", 3, 3, 100 * time.Millisecond},
		{"the second wave waits for the first one", "absent:100ms absent:900ms absent:100ms found:1s", "3", 4, 3, 1900 * time.Millisecond},
		{"known candidates are not in a wave", "absent:1s absent absent:1s absent absent:1s found", "5", 6, 3, time.Second},
		{"a slow domain delays the next wave by a second",
			"absent:1500ms absent:100ms absent:100ms absent:100ms found:100ms", "4", 5, 3, 1500 * time.Millisecond},
		{"the first domain is dead, the fifth has the name",
			"absent:1h " + strings.Repeat("absent:100ms ", 3) + "found:100ms " + strings.Repeat("absent:100ms ", 4),
			"4", 6, 4, WalkTimeout},
		{"all domains but the last are dead", strings.Repeat("absent:1h ", MaxHostSuffixes) + "found:100ms", "8", 9, 9, WalkTimeout},
		{"no wave starts after a found candidate", "absent:1500ms found:100ms absent:100ms found:100ms",
			"1", 3, 3, 1500 * time.Millisecond},
		{"a name of the cluster ends a wave", "absent:100ms cluster/absent:2s absent:100ms found:100ms",
			"3", 4, 2, 2100 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				s := parseScript(tt.script)
				r, w := s.run(t.Context(), t)
				if want := mustName(t, tt.candidate); r.outcome != found || r.name != want || len(w.steps) != tt.tried {
					t.Errorf("%v %v after %d candidates, want %v after %d", r.outcome, r.name, len(w.steps), want, tt.tried)
				}
				if got, took := int(s.maxWaiting.Load()), time.Since(begin); got != tt.atOnce || took != tt.took {
					t.Errorf("%d candidates at once, %v, want %d, %v", got, took, tt.atOnce, tt.took)
				}
			})
		})
	}
}

// TestWalk_ContextEnds: when its context ends, the walk fails. It never returns NXDOMAIN.
func TestWalk_ContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r, _ := parseScript("absent:2s found:2s").run(ctx, t); r.outcome != unresolved || r.ttl != 0 {
			t.Errorf("got %v, TTL %d, want %v, TTL 0", r.outcome, r.ttl, unresolved)
		}
	})
}

// TestWalk_Panic: a lookup that panics costs the query an answer, and never denies a name.
func TestWalk_Panic(t *testing.T) {
	panics := 0
	w := &walk{
		candidates: []fqdn.Name{mustName(t, "a"), mustName(t, "b")},
		recoverPanic: func() {
			if recover() != nil {
				panics++
			}
		},
		lookup: func(name fqdn.Name) (lookupResult, func(context.Context) lookupResult) {
			if name == mustName(t, "b") {
				return lookupResult{outcome: nxdomain, ttl: 5}, nil
			}
			return lookupResult{}, func(context.Context) lookupResult { panic("a fault of the lookup") }
		},
	}
	if !w.advance() {
		w.await(t.Context())
	}
	if lr := w.conclude(); lr.outcome != unresolved || lr.ttl != 0 || panics != 1 {
		t.Errorf("got %v with TTL %d after %d panics, want failed with TTL 0 after 1", lr.outcome, lr.ttl, panics)
	}
}

// TestWalk_FallsBack: a refusal is at once the result if the client tries the candidates itself,
// also while an earlier candidate has no answer. Otherwise a later candidate may be found.
func TestWalk_FallsBack(t *testing.T) {
	for _, tt := range []struct {
		fallsBack    bool
		script, want string
	}{
		{true, "absent:3s limit:1s found:2s", "failed, budget, 1s"},
		{true, "absent:3s subqueries:1s found:2s", "found, not_refused, 3s"}, // the client has the same limit
		{false, "absent:3s limit:1s found:2s", "found, not_refused, 3s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin, s := time.Now(), parseScript(tt.script)
			s.clientCanExpand = tt.fallsBack
			f, _ := s.run(t.Context(), t)
			if got := fmt.Sprintf("%v, %s, %v", f.outcome, f.answer.refused.String(), time.Since(begin)); got != tt.want {
				t.Errorf("%t, %s: got %s, want %s", tt.fallsBack, tt.script, got, tt.want)
			}
		})
	}
}
