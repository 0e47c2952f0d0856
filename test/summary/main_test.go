// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	const ok = `{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: logged\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`
	const skipped = `{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:1: needs root\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
`
	const failed = `{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:1: got 1, want 2\n"}
{"Action":"fail","Package":"p","Test":"TestC"}
{"Action":"fail","Package":"p"}
`
	tests := []struct {
		name, events string
		all, verbose bool
		wantGood     bool
		want         string
	}{
		{"all well", ok, true, false, true, "ok  \tp\t0.1s\n1 passed, 0 failed, 0 skipped\n"},
		{"what was logged", ok, true, true, true, "    a_test.go:1: logged\nok  \tp\t0.1s\n1 passed, 0 failed, 0 skipped\n"},
		{"a skip has its reason", ok + skipped, false, false, true, "ok  \tp\t0.1s\nskipped: p TestB\n    b_test.go:1: needs root\n1 passed, 0 failed, 1 skipped\n"},
		{"and fails where there is none", ok + skipped, true, false, false, "ok  \tp\t0.1s\nskipped: p TestB\n    b_test.go:1: needs root\non Linux as root nothing may be skipped\n1 passed, 0 failed, 1 skipped\n"},
		{"a failure has its output", ok + failed, true, false, false, "ok  \tp\t0.1s\n    c_test.go:1: got 1, want 2\nfailed: p\n1 passed, 1 failed, 0 skipped\n"},
		{"a package that does not build", "# p\nx.go:1: undefined\n" + `{"Action":"build-output","Output":"y.go:1: undefined\n"}` + "\n" + `{"Action":"fail","Package":"p"}`, true, false, false, "# p\nx.go:1: undefined\ny.go:1: undefined\nfailed: p\n0 passed, 0 failed, 0 skipped\n"},
		{"no test at all", "", true, false, false, "0 passed, 0 failed, 0 skipped\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			s := summary{out: &out, verbose: tt.verbose, output: map[string][]string{}}
			if err := s.read(strings.NewReader(tt.events)); err != nil {
				t.Fatal(err)
			}
			if good := s.good(tt.all); good != tt.wantGood || out.String() != tt.want {
				t.Errorf("good %v, want %v; got\n%s\nwant\n%s", good, tt.wantGood, out.String(), tt.want)
			}
		})
	}
}
