// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/cluster/cases"
)

const (
	minHits     = 100 // of each clause of a rule
	minRareHits = 4
	maxPercent  = 1 // limits the cases that diverge, so that no error hides behind them
)

// tally counts the clauses and divergences of cases, for all seeds.
type tally struct {
	mu          sync.Mutex
	cases       int
	diverging   int
	needless    int // of those, the cases with the kubelet's own answer
	divergences map[string]int
	clauses     []int // by index in rules
}

func newTally() *tally {
	return &tally{divergences: make(map[string]int), clauses: make([]int, len(rules))}
}

func (y *tally) count(c *cases.Case, a *cases.Answer) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.cases++
	for i, r := range rules {
		if r.hit(c, a) {
			y.clauses[i]++
		}
	}
}

// diverge counts a case to which divergences apply; differs reports whether the engine's
// answer differs from the kubelet's.
func (y *tally) diverge(divergences []string, differs bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.diverging++
	if !differs {
		y.needless++
	}
	for _, name := range divergences {
		y.divergences[name]++
	}
}

// check fails if a rule was covered too seldom, or if there are too many or unused
// divergences.
func (y *tally) check(t *testing.T) {
	var table strings.Builder
	for i, r := range rules {
		fmt.Fprintf(&table, "%-3s %-42s %6d\n", r.id, r.clause, y.clauses[i])
		want := minHits
		if r.clause == rareClause {
			want = minRareHits
		}
		if y.clauses[i] < want {
			t.Errorf("rule %s (%s): %d cases, want %d", r.id, r.clause, y.clauses[i], want)
		}
	}
	for _, d := range cases.Divergences {
		fmt.Fprintf(&table, "divergence %-35s %6d\n", d.Name, y.divergences[d.Name])
		if y.divergences[d.Name] == 0 {
			t.Errorf("divergence %s: no case", d.Name)
		}
	}
	t.Logf("%d cases; %d may diverge, %d do not:\n%s", y.cases, y.diverging, y.needless, table.String())
	if y.diverging*100 > y.cases*maxPercent {
		t.Errorf("%d of %d cases diverge, want at most %d %%", y.diverging, y.cases, maxPercent)
	}
	// A limit may hide a divergence. With more than a few of those, a predicate is too
	// broad.
	if y.needless*10 > y.diverging {
		t.Errorf("%d of %d cases that may diverge do not", y.needless, y.diverging)
	}
}
