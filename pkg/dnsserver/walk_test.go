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

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// script determines the findings about candidates, a word for each: "absent", "nodata",
// "found" or "failed". After a colon: how long other servers take to answer; before it,
// "cluster/" for a name of the cluster. The candidates are named 0, 1, 2 and so on.
type script struct {
	words   []string
	asked   []atomic.Bool // of other servers
	waiting atomic.Int32
	most    atomic.Int32 // the maximum of waiting
}

// run walks along the candidates of the script, as Server.walk does.
func (s *script) run(ctx context.Context, t *testing.T) (finding, *walk) {
	t.Helper()
	w := &walk{lookup: s.lookup}
	for i := range s.words {
		w.candidates = append(w.candidates, mustName(t, fmt.Sprint(i)))
	}
	if !w.advance() {
		w.await(ctx)
	}
	return w.conclude(), w
}

func parseScript(text string) *script {
	words := strings.Fields(text)
	return &script{words: words, asked: make([]atomic.Bool, len(words))}
}

func (s *script) lookup(name fqdn.Name) (finding, func(context.Context) finding) {
	i := 0
	fmt.Sscan(name.String(), &i)
	word, after, waits := strings.Cut(s.words[i], ":")
	word, cluster := strings.CutPrefix(word, "cluster/")
	f := finding{answer: failure(fromServer, 0, fmt.Sprint(i)), ttl: uint32(10 * (i + 1)), cluster: cluster}
	f.outcome = outcome(slices.Index([]string{"absent", "nodata", "found", "failed"}, word))
	if !waits {
		return f, nil
	}
	took, err := time.ParseDuration(after)
	if err != nil {
		panic(err)
	}
	return finding{cluster: cluster}, func(ctx context.Context) finding {
		s.asked[i].Store(true)
		s.most.Store(max(s.most.Load(), s.waiting.Add(1)))
		defer s.waiting.Add(-1)
		select {
		case <-time.After(took):
			return f
		case <-ctx.Done():
			return finding{outcome: unresolved, answer: failure(fromServer, 0, "late")}
		}
	}
}

// TestWalk has candidates and the result: the outcome, the candidate whose answer it is, the
// TTL, the candidates that other servers were asked for, and the time it took.
func TestWalk(t *testing.T) {
	tests := []struct{ what, script, want string }{
		{"the first is found", "cluster/found found:1s", "found 0, any TTL"},
		{"an absent name is passed over until its TTL ends", "cluster/absent cluster/absent found", "found 2, TTL 10"},
		{"the shortest denial counts", "absent:1s cluster/absent found:1s", "found 2, TTL 10, asked 0 2, 1s"},
		{"NODATA is passed over", "cluster/nodata found", "found 1, TTL 10"},
		{"NODATA is remembered", "cluster/nodata absent", "nodata 1, TTL 10"},
		{"nothing", "cluster/absent absent", "absent 1, TTL 10"},
		{"no candidate", "", "absent , any TTL"},

		{"the cluster fails", "cluster/absent cluster/failed found", "failed 1, TTL 10"},
		{"the cluster fails behind what was found", "cluster/found cluster/failed", "found 0, any TTL"},
		{"the cluster fails behind a host suffix that is found", "found:1s cluster/failed", "found 0, any TTL, asked 0, 1s"},
		{"the cluster fails behind a host suffix that is not", "absent:1s cluster/failed", "failed 1, TTL 10, asked 0, 1s"},
		{"a host suffix fails, a later name is found: not cached", "cluster/absent failed found", "found 2, TTL 0"},
		{"a host suffix fails, nothing is found", "cluster/absent failed absent", "failed 1, TTL 0"},
		{"a host suffix fails, NODATA", "cluster/nodata failed absent", "failed 1, TTL 0"},
		{"a host suffix fails behind what was found", "found failed", "found 0, any TTL"},
		{"the bare name fails", "cluster/absent absent failed", "failed 2, TTL 0"},

		{"other servers are asked at once", "cluster/absent absent:1s absent:2s found:1s", "found 3, TTL 10, asked 1 2 3, 2s"},
		{"the first one found wins, not the quickest", "found:2s found:1s", "found 0, any TTL, asked 0 1, 2s"},
		{"a walk does not wait behind a found name", "found:1s found:2s failed:3s", "found 0, any TTL, asked 0 1 2, 1s"},
		{"no server is asked behind a known name", "found failed:1s", "found 0, any TTL"},
		{"no server is asked behind a name of the cluster", "absent:1s cluster/found found:1s", "found 1, TTL 10, asked 0, 1s"},
		{"an external name is waited for before other servers are asked", "cluster/found:1s found:1s", "found 0, any TTL, asked 0, 1s"},
		{"an external name leads nowhere", "cluster/absent:1s found:1s", "found 1, TTL 10, asked 0 1, 2s"},
		{"an external name fails", "cluster/failed:1s found:1s", "failed 0, any TTL, asked 0, 1s"},

		{"in time", "found:3999ms", "found 0, any TTL, asked 0, 3.999s"},
		{"too late", "found:4001ms", "failed late, TTL 0, asked 0, 4s"},
		{"too late, but a later name is found", "absent:9s found:1s", "found 1, TTL 0, asked 0 1, 4s"},
		{"an external name that takes too long", "cluster/found:9s found", "failed late, any TTL, asked 0, 4s"},
		{"the time of an external name is part of the limit", "cluster/absent:3s found:2s", "failed late, TTL 0, asked 0 1, 4s"},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				s := parseScript(tt.script)
				r, _ := s.run(t.Context(), t)
				of := ""
				if r.answer.extended != nil {
					of = r.answer.extended.ExtraText
				}
				got := fmt.Sprintf("%v %v, TTL %d", r.outcome, of, r.ttl)
				got = strings.Replace(got, fmt.Sprintf("TTL %d", uint32(noLimit)), "any TTL", 1)
				asked := ""
				for i := range s.asked {
					if s.asked[i].Load() {
						asked += fmt.Sprintf(" %d", i)
					}
				}
				if asked != "" {
					got += ", asked" + asked
				}
				if took := time.Since(begin); took > 0 {
					got += fmt.Sprintf(", %v", took)
				}
				if got != tt.want {
					t.Errorf("%s\n got %s\nwant %s", tt.script, got, tt.want)
				}
				if (r.outcome == found) != (r.name != "") {
					t.Errorf("%s: the name is %q", tt.script, r.name)
				}
				if s.waiting.Load() != 0 {
					t.Errorf("%s: %d questions outlive the walk", tt.script, s.waiting.Load())
				}
			})
		})
	}
}

// TestWalkLongest has the maximum of candidates, each of which other servers answer.
func TestWalkLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := parseScript(strings.Repeat("absent:1s ", autopath.MaxPaths) + "found:1s")
		r, w := s.run(t.Context(), t)
		if r.outcome != found || len(w.steps) != autopath.MaxPaths+1 || s.most.Load() != autopath.MaxPaths+1 {
			t.Errorf("%v after %d candidates, %d at once", r.outcome, len(w.steps), s.most.Load())
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("took %v of the clock", took)
		}
	})
}

// TestWalkEnds: when its context ends, the walk fails. It never denies a name.
func TestWalkEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r, _ := parseScript("absent:2s found:2s").run(ctx, t); r.outcome != unresolved || r.ttl != 0 {
			t.Errorf("%v, TTL %d", r.outcome, r.ttl)
		}
	})
}
