// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package autopath

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

// script says what becomes of candidates, a word for each: "absent", "nodata", "found",
// "failed"; behind a colon how long others take to say so, and before it "cluster/" for
// a name of the cluster. The candidates are named 0, 1, 2 and so on.
type script struct {
	words   []string
	asked   []atomic.Bool // of others
	waiting atomic.Int32
	most    atomic.Int32 // that waited at once
}

func play(t *testing.T, text string) (Result[string], *script) {
	t.Helper()
	s := &script{words: strings.Fields(text)}
	s.asked = make([]atomic.Bool, len(s.words))
	var candidates []fqdn.Name
	for i := range s.words {
		candidates = append(candidates, name(t, fmt.Sprint(i)))
	}
	return Walk(t.Context(), candidates, s.lookup), s
}

func (s *script) lookup(name fqdn.Name) (CandidateResult[string], func(context.Context) CandidateResult[string]) {
	i := 0
	fmt.Sscan(name.String(), &i)
	word, after, later := strings.Cut(s.words[i], ":")
	word, cluster := strings.CutPrefix(word, "cluster/")
	f := CandidateResult[string]{Answer: fmt.Sprint(i), NegativeTTL: uint32(10 * (i + 1)), InCluster: cluster}
	f.Outcome = Outcome(slices.Index([]string{"absent", "nodata", "found", "failed"}, word))
	if !later {
		return f, nil
	}
	took, err := time.ParseDuration(after)
	if err != nil {
		panic(err)
	}
	return CandidateResult[string]{InCluster: cluster}, func(ctx context.Context) CandidateResult[string] {
		s.asked[i].Store(true)
		s.most.Store(max(s.most.Load(), s.waiting.Add(1)))
		defer s.waiting.Add(-1)
		select {
		case <-time.After(took):
			return f
		case <-ctx.Done():
			return CandidateResult[string]{Outcome: Failed, Answer: "late"}
		}
	}
}

// TestWalk has candidates and the result: the outcome, whose answer it is, the TTL, and
// who was asked of others, in how long.
func TestWalk(t *testing.T) {
	tests := []struct{ what, script, want string }{
		{"the first is found", "cluster/found found:1s", "found 0, any TTL"},
		{"what is absent is passed over, for as long as it is", "cluster/absent cluster/absent found", "found 2, TTL 10"},
		{"the shortest denial counts", "absent:1s cluster/absent found:1s", "found 2, TTL 10, asked 0 2, 1s"},
		{"NODATA is passed over", "cluster/nodata found", "found 1, TTL 10"},
		{"NODATA is remembered", "cluster/nodata absent", "nodata 1, TTL 10"},
		{"nothing", "cluster/absent absent", "absent 1, TTL 10"},
		{"no candidate", "", "absent , any TTL"},

		{"the cluster fails", "cluster/absent cluster/failed found", "failed 1, TTL 10"},
		{"the cluster fails behind what was found", "cluster/found cluster/failed", "found 0, any TTL"},
		{"the cluster fails behind a host suffix that is found", "found:1s cluster/failed", "found 0, any TTL, asked 0, 1s"},
		{"the cluster fails behind a host suffix that is not", "absent:1s cluster/failed", "failed 1, TTL 10, asked 0, 1s"},
		{"a host suffix fails, a later name is found: not to be kept", "cluster/absent failed found", "found 2, TTL 0"},
		{"a host suffix fails, nothing is found", "cluster/absent failed absent", "failed 1, TTL 0"},
		{"a host suffix fails, NODATA", "cluster/nodata failed absent", "failed 1, TTL 0"},
		{"a host suffix fails behind what was found", "found failed", "found 0, any TTL"},
		{"the bare name fails", "cluster/absent absent failed", "failed 2, TTL 0"},

		{"others are asked at once", "cluster/absent absent:1s absent:2s found:1s", "found 3, TTL 10, asked 1 2 3, 2s"},
		{"the first one found wins, not the quickest", "found:2s found:1s", "found 0, any TTL, asked 0 1, 2s"},
		{"what is behind is not waited for", "found:1s found:2s failed:3s", "found 0, any TTL, asked 0 1 2, 1s"},
		{"nobody is asked behind what is known", "found failed:1s", "found 0, any TTL"},
		{"nobody is asked behind a name of the cluster", "absent:1s cluster/found found:1s", "found 1, TTL 10, asked 0, 1s"},
		{"an external name is waited for before others are asked", "cluster/found:1s found:1s", "found 0, any TTL, asked 0, 1s"},
		{"an external name leads nowhere", "cluster/absent:1s found:1s", "found 1, TTL 10, asked 0 1, 2s"},
		{"an external name fails", "cluster/failed:1s found:1s", "failed 0, any TTL, asked 0, 1s"},

		{"in time", "found:3999ms", "found 0, any TTL, asked 0, 3.999s"},
		{"too late", "found:4001ms", "failed late, TTL 0, asked 0, 4s"},
		{"too late, but a later name is found", "absent:9s found:1s", "found 1, TTL 0, asked 0 1, 4s"},
		{"an external name that takes too long", "cluster/found:9s found", "failed late, any TTL, asked 0, 4s"},
		{"what an external name took is not there for others", "cluster/absent:3s found:2s", "failed late, TTL 0, asked 0 1, 4s"},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				r, s := play(t, tt.script)
				got := fmt.Sprintf("%v %v, TTL %d", r.Outcome, r.Answer, r.TTL)
				got = strings.Replace(got, fmt.Sprintf("TTL %d", uint32(NoLimit)), "any TTL", 1)
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
				if (r.Outcome == Found) != (r.Name != "") {
					t.Errorf("%s: the name is %q", tt.script, r.Name)
				}
				if s.waiting.Load() != 0 {
					t.Errorf("%s: %d questions outlive the walk", tt.script, s.waiting.Load())
				}
			})
		})
	}
}

// TestWalkLongest: as many candidates as there can be, each asked of others.
func TestWalkLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		r, s := play(t, strings.Repeat("absent:1s ", MaxPaths)+"found:1s")
		if r.Outcome != Found || r.Lookups != MaxPaths+1 || s.most.Load() != MaxPaths+1 {
			t.Errorf("%v after %d candidates, %d at once", r.Outcome, r.Lookups, s.most.Load())
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("took %v of the clock", took)
		}
	})
}

// TestWalkEnds with its context, whose end is a failure and not the absence of a name.
func TestWalkEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{words: []string{"absent:2s", "found:2s"}, asked: make([]atomic.Bool, 2)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r := Walk(ctx, names(t, "0", "1"), s.lookup); r.Outcome != Failed || r.TTL != 0 {
			t.Errorf("%v, TTL %d", r.Outcome, r.TTL)
		}
	})
}
