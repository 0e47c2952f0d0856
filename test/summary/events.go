// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// event is one line of `go test -json` (cmd/test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// id names a test in the whole suite.
type id struct{ Package, Test string }

func (i id) String() string { return strings.TrimSpace(i.Package + " " + i.Test) }

// summary collects the events of one suite.
type summary struct {
	out     io.Writer
	verbose bool

	cpu     time.Duration   // of the command and the processes that it waited for
	output  map[id][]string // of running tests
	passed  int
	failed  []id // tests, and packages that failed without a failed test
	skipped []string
}

func newSummary(out io.Writer, verbose bool) *summary {
	return &summary{out: out, verbose: verbose, output: map[id][]string{}}
}

// read reads events until r ends. It prints lines that are not events, such as those
// of a compiler.
func (s *summary) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(s.out, lines.Text())
			continue
		}
		s.add(e)
	}
	return lines.Err()
}

func (s *summary) add(e event) {
	i := id{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "output":
		if e.Test != "" {
			s.output[i] = append(s.output[i], e.Output)
		} else if e.Output != "PASS\n" {
			fmt.Fprint(s.out, e.Output)
		}
	case "pass", "skip", "fail":
		if e.Test == "" {
			s.endPackage(e)
		} else {
			s.endTest(i, e.Action)
		}
	}
}

// endPackage also fails the tests that were running when the package's process ended.
func (s *summary) endPackage(e event) {
	if e.Action != "fail" {
		return
	}
	byName := func(a, b id) int { return strings.Compare(a.Test, b.Test) }
	for _, i := range slices.SortedFunc(maps.Keys(s.output), byName) {
		if i.Package == e.Package {
			s.endTest(i, "fail")
		}
	}
	if !slices.ContainsFunc(s.failed, func(i id) bool { return i.Package == e.Package }) {
		s.failed = append(s.failed, id{Package: e.Package})
	}
}

func (s *summary) endTest(i id, action string) {
	output := strings.Join(s.output[i], "")
	delete(s.output, i)
	switch action {
	case "pass":
		s.passed++
		if s.verbose && strings.Contains(output, ".go:") {
			fmt.Fprint(s.out, output)
		}
	case "skip":
		s.skipped = append(s.skipped, i.String()+"\n"+output)
	case "fail":
		s.failed = append(s.failed, i)
		fmt.Fprint(s.out, output)
	}
}

// report prints the totals and returns them. err is the command's. If complete is
// set, a skip is a failure.
func (s *summary) report(err error, complete bool) report {
	r := report{Passed: s.passed, Skipped: len(s.skipped)}
	for _, i := range s.failed {
		r.Failed = append(r.Failed, i.String())
	}
	for _, text := range s.skipped {
		fmt.Fprintln(s.out, "skipped:", strings.TrimSpace(text))
	}
	for _, name := range r.Failed {
		fmt.Fprintln(s.out, "failed:", name)
	}
	fmt.Fprintf(s.out, "%d passed, %d failed, %d skipped\n", r.Passed, len(r.Failed), r.Skipped)
	switch {
	case len(r.Failed) > 0:
		r.Reason = "tests failed"
	case err != nil:
		r.Reason = err.Error()
	case r.Passed == 0:
		r.Reason = "no test passed"
	case complete && r.Skipped > 0:
		r.Reason = "tests were skipped on Linux as root"
	}
	return r
}
