// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/deviation"
)

const (
	minQuestions = 50_000
	maxPercent   = 2  // limits the questions in one class, so that no error hides there
	minUsed      = 20 // questions in each class
	maxNeedless  = 10 // percent of a class in which CoreDNS replies as specified
	minRcode     = 500
)

// tally counts the questions of all runs by kind.
type tally struct {
	questions int
	answers   map[string]int // by the right reply
	applied   map[string]int // by class
	differed  map[string]int
}

func newTally() *tally {
	return &tally{answers: map[string]int{}, applied: map[string]int{}, differed: map[string]int{}}
}

func (y *tally) count(cases []*deviation.Case) {
	y.questions += len(cases)
	for _, c := range cases {
		kind := dns.RcodeToString[c.Want.Rcode]
		if len(c.Want.Answer) > 0 {
			kind = "answer"
		} else if kind == "NOERROR" {
			kind = "NODATA"
		}
		y.answers[kind]++
	}
}

func (y *tally) deviate(class string, differs bool) {
	if class == "" {
		return
	}
	y.applied[class]++
	if differs {
		y.differed[class]++
	}
}

// check fails the test if a class covers too many questions, or none, or if a kind of
// question was too rare.
func (y *tally) check(t *testing.T) {
	t.Helper()
	var table strings.Builder
	for _, kind := range []string{"answer", "NODATA", "NXDOMAIN"} {
		fmt.Fprintf(&table, "%-38s %6d\n", kind, y.answers[kind])
		if y.answers[kind] < minRcode {
			t.Errorf("%d questions have %s for an answer, want %d", y.answers[kind], kind, minRcode)
		}
	}
	for _, class := range deviation.Classes {
		n, differed := y.applied[class.Name], y.differed[class.Name]
		fmt.Fprintf(&table, "%-38s %6d, %d differ\n", class.Name, n, differed)
		switch {
		case n < minUsed:
			t.Errorf("class %s: %d questions, want %d", class.Name, n, minUsed)
		case n*100 > y.questions*maxPercent:
			t.Errorf("class %s: %d of %d questions, want at most %d %%", class.Name, n, y.questions, maxPercent)
		case (n-differed)*100 > n*maxNeedless:
			t.Errorf("class %s: %d of %d questions are answered as specified: it is too broad", class.Name, n-differed, n)
		}
	}
	t.Logf("%d questions:\n%s", y.questions, table.String())
	if y.questions < minQuestions {
		t.Errorf("%d questions, want %d", y.questions, minQuestions)
	}
}
