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
	maxPercent  = 1 // of the cases may diverge, so that nothing hides behind them
)

// tally counts what cases met, for all seeds.
type tally struct {
	mu          sync.Mutex
	cases       int
	diverging   int
	needless    int // of those, the ones that get the kubelet's own answer all the same
	divergences map[string]int
	clauses     []int // by place in rules
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

// diverge counts a case to which divergences apply; differs tells whether our answer is
// another than the kubelet's.
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

// check fails when a rule was met too seldom to say that we follow it, or when the
// divergences are too many or unused.
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
	t.Logf("%d cases; %d may diverge, of which %d do not:\n%s", y.cases, y.diverging, y.needless, table.String())
	if y.diverging*100 > y.cases*maxPercent {
		t.Errorf("%d of %d cases diverge, want at most %d %%", y.diverging, y.cases, maxPercent)
	}
	// A limit may hide what diverges. More than a few, and a predicate is too broad.
	if y.needless*10 > y.diverging {
		t.Errorf("%d of %d cases that may diverge do not", y.needless, y.diverging)
	}
}
