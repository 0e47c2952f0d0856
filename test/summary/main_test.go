// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

const (
	passing = `{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: logged\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`
	skipping = `{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:1: needs root\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
`
	failing = `{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:1: got 1, want 2\n"}
{"Action":"fail","Package":"p","Test":"TestC"}
{"Action":"fail","Package":"p"}
`
	unfinished = `{"Action":"output","Package":"p","Test":"TestD","Output":"panic: test timed out after 20m0s\n"}
{"Action":"fail","Package":"p"}
`
	notBuilt = "# p\nx.go:1: undefined\n" + `{"Action":"build-output","Output":"y.go:1: undefined\n"}
{"Action":"fail","Package":"p"}
`
)

func TestReport(t *testing.T) {
	tests := []struct {
		name, events      string
		err               error
		complete, verbose bool
		wantReason        string
		want              string
	}{
		{"all pass", passing, nil, true, false, "", "ok  \tp\t0.1s\n1 passed, 0 failed, 0 skipped\n"},
		{"verbose", passing, nil, true, true, "", "    a_test.go:1: logged\nok  \tp\t0.1s\n1 passed, 0 failed, 0 skipped\n"},
		{"skip", passing + skipping, nil, false, false, "",
			"ok  \tp\t0.1s\nskipped: p TestB\n    b_test.go:1: needs root\n1 passed, 0 failed, 1 skipped\n"},
		{"skip where everything runs", passing + skipping, nil, true, false, "tests were skipped on Linux as root",
			"ok  \tp\t0.1s\nskipped: p TestB\n    b_test.go:1: needs root\n1 passed, 0 failed, 1 skipped\n"},
		{"failed test", passing + failing, errors.New("exit status 1"), true, false, "tests failed",
			"ok  \tp\t0.1s\n    c_test.go:1: got 1, want 2\nfailed: p TestC\n1 passed, 1 failed, 0 skipped\n"},
		{"unfinished test", passing + unfinished, nil, true, false, "tests failed",
			"ok  \tp\t0.1s\npanic: test timed out after 20m0s\nfailed: p TestD\n1 passed, 1 failed, 0 skipped\n"},
		{"package that does not build", notBuilt, nil, true, false, "tests failed",
			"# p\nx.go:1: undefined\ny.go:1: undefined\nfailed: p\n0 passed, 1 failed, 0 skipped\n"},
		{"failed command", passing, errors.New("exit status 2"), true, false, "exit status 2",
			"ok  \tp\t0.1s\n1 passed, 0 failed, 0 skipped\n"},
		{"no test", "", nil, true, false, "no test passed", "0 passed, 0 failed, 0 skipped\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			s := newSummary(&out, tt.verbose)
			must.Succeed(t, s.read(strings.NewReader(tt.events)))
			if r := s.report(tt.err, tt.complete); r.Reason != tt.wantReason || out.String() != tt.want {
				t.Errorf("reason %q, want %q; got\n%s\nwant\n%s", r.Reason, tt.wantReason, out.String(), tt.want)
			}
		})
	}
}

func TestRun_FailingCommand(t *testing.T) {
	var out strings.Builder
	s := newSummary(&out, false)
	if err := s.run([]string{"sh", "-c", "echo text; exit 3"}); err == nil || err.Error() != "exit status 3" || out.String() != "text\n" {
		t.Errorf("error %v, output %q", err, out.String())
	}
}

// TestRun_CPU: the time of a process that the command has waited for counts.
func TestRun_CPU(t *testing.T) {
	s := newSummary(io.Discard, false)
	if err := s.run([]string{"sh", "-c", "head -c 500000000 /dev/zero | wc -c >/dev/null"}); err != nil || s.cpu == 0 {
		t.Errorf("%v of the CPUs, error %v", s.cpu, err)
	}
}

func TestPrintTotal(t *testing.T) {
	dir := t.TempDir()
	for _, r := range []report{
		{Name: "good", Passed: 12, Seconds: 61.2, CPUSeconds: 119.6},
		{Name: "bad", Passed: 3, Failed: []string{"p TestA", "p TestB/x"}, Skipped: 1, Reason: "tests failed", Seconds: 5},
	} {
		must.Succeed(t, r.write(dir))
	}
	var out strings.Builder
	if err := printTotal(&out, dir, []string{"good"}); err != nil {
		t.Errorf("one good suite: %v", err)
	}
	out.Reset()
	err := printTotal(&out, dir, []string{"good", "bad", "lost"})
	if err == nil || err.Error() != "2 of 3 suites failed" {
		t.Errorf("error %v", err)
	}
	got := strings.ReplaceAll(out.String(), dir, "DIR")
	want := `
suite  result  passed  failed  skipped  time  CPU
good   ok      12      0       0        1m1s  2m0s
bad    FAILED  3       2       1        5s    0s
lost   FAILED  0       0       0        0s    0s
bad failed: tests failed
    p TestA
    p TestB/x
lost failed: did not end: open DIR/lost.json: no such file or directory
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
