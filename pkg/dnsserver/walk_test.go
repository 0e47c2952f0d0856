// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// script determines the findings about candidates, one step for each: "absent", "nodata",
// "found", "failed", "limit" or "subqueries" (refused), then after a colon how long other servers take to reply. The prefix
// "cluster/" marks a name of the cluster. The candidates are named 0, 1, 2 and so on. After "client" the client can try
// them itself.
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
	text, clientCanExpand := strings.CutPrefix(text, "client ")
	words := strings.Fields(text)
	return &script{steps: words, queried: make([]atomic.Bool, len(words)), clientCanExpand: clientCanExpand}
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

// TestWalk compares the results of the walks in testdata/walks.txt.
func TestWalk(t *testing.T) {
	const path = "testdata/walks.txt"
	text := must.Get(os.ReadFile(path))(t)
	var all strings.Builder
	walks := 0
	for line := range strings.Lines(string(text)) {
		steps, rest, ok := strings.Cut(line, "=>")
		want, comment, _ := strings.Cut(rest, "#")
		if !ok {
			all.WriteString(line)
			continue
		}
		walks++
		var got string
		synctest.Test(t, func(t *testing.T) { got = walkText(t, steps) })
		if want = strings.TrimSpace(want); !*update && got != want {
			t.Errorf("%s: %s\n got %s\nwant %s", strings.TrimSpace(comment), steps, got, want)
		}
		fmt.Fprintf(&all, "%s => %s  # %s", strings.TrimSpace(steps), got, strings.TrimLeft(comment, " "))
	}
	if walks < 30 {
		t.Errorf("%d walks in %s", walks, path)
	}
	if *update {
		must.Succeed(t, os.WriteFile(path, []byte(all.String()), 0o644))
	}
}

// walkText walks, and returns the result as text.
func walkText(t *testing.T, steps string) string {
	begin, s := time.Now(), parseScript(steps)
	r, w := s.run(t.Context(), t)
	text := r.outcome.String()
	if r.answer.extended != nil {
		text += " " + r.answer.extended.ExtraText
	}
	if r.answer.refused != notRefused {
		text += " (" + r.answer.refused.String() + ")"
	}
	if (r.outcome == found) != (r.name != "") {
		t.Errorf("%s: got the outcome %v with the name %q", steps, r.outcome, r.name)
	}
	if s.waiting.Load() != 0 {
		t.Errorf("%s: %d questions are still waiting after the walk", steps, s.waiting.Load())
	}
	if r.ttl != noLimit {
		text += fmt.Sprint(", TTL ", r.ttl)
	}
	queried := ""
	for i := range s.queried {
		if s.queried[i].Load() {
			queried += fmt.Sprintf(" %d", i)
		}
	}
	if queried != "" {
		text += ", queried" + queried
	}
	if n := s.maxWaiting.Load(); n > 1 {
		text += fmt.Sprintf(", %d at once", n)
	}
	if len(w.steps) != len(s.steps) {
		text += fmt.Sprintf(", tried %d", len(w.steps))
	}
	if took := time.Since(begin); took > 0 {
		text += fmt.Sprintf(", %v", took)
	}
	return text
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
