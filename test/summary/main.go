// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Command summary reads the output of `go test -json` and prints what a person
// wants to know: a line for each package, the output of tests that failed, what
// was skipped and why, and the totals. With -v it also prints what tests logged.
//
// On Linux as root nothing has a reason to be skipped: there a skip is a failure,
// so that a test cannot be lost without anybody noticing.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// event is one line of `go test -json` (cmd/test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

func main() {
	verbose := flag.Bool("v", false, "print what tests logged")
	flag.Parse()
	s := summary{out: os.Stdout, verbose: *verbose, output: map[string][]string{}}
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
		os.Exit(1)
	}
	if !s.good(runtime.GOOS == "linux" && os.Geteuid() == 0) {
		os.Exit(1)
	}
}

type summary struct {
	out     io.Writer
	verbose bool

	output          map[string][]string // of tests that have not ended, by package and test
	passed, failed  int
	skipped, broken []string // skipped tests; packages that failed, also without a test
}

// read takes in all events. Lines that are none, as a compiler's, are printed.
func (s *summary) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(s.out, lines.Text())
			continue
		}
		s.event(e)
	}
	return lines.Err()
}

func (s *summary) event(e event) {
	id := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "output":
		if e.Test != "" {
			s.output[id] = append(s.output[id], e.Output)
		} else if e.Output != "PASS\n" {
			fmt.Fprint(s.out, e.Output)
		}
	case "pass", "skip", "fail":
		s.end(e, id)
		delete(s.output, id)
	}
}

func (s *summary) end(e event, id string) {
	output := strings.Join(s.output[id], "")
	switch {
	case e.Test == "":
		if e.Action == "fail" {
			s.broken = append(s.broken, e.Package)
		}
	case e.Action == "pass":
		s.passed++
		if s.verbose && strings.Contains(output, ".go:") {
			fmt.Fprint(s.out, output)
		}
	case e.Action == "skip":
		s.skipped = append(s.skipped, id+"\n"+output)
	default:
		s.failed++
		fmt.Fprint(s.out, output)
	}
}

// good prints the totals and tells whether all is well. With all set, nothing may
// be skipped.
func (s *summary) good(all bool) bool {
	for _, t := range s.skipped {
		fmt.Fprintln(s.out, "skipped:", strings.TrimSpace(t))
	}
	for _, p := range s.broken {
		fmt.Fprintln(s.out, "failed:", p)
	}
	if all && len(s.skipped) > 0 {
		fmt.Fprintln(s.out, "on Linux as root nothing may be skipped")
	}
	fmt.Fprintf(s.out, "%d passed, %d failed, %d skipped\n", s.passed, s.failed, len(s.skipped))
	return s.failed+len(s.broken) == 0 && s.passed > 0 && (!all || len(s.skipped) == 0)
}
