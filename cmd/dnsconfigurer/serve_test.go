// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestFrugal has what a shim asks of Go's runtime, and what wins over it.
func TestFrugal(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	defer debug.SetGCPercent(debug.SetGCPercent(77))
	settings := func() [2]int {
		percent := debug.SetGCPercent(-1)
		debug.SetGCPercent(percent)
		return [2]int{runtime.GOMAXPROCS(0), percent}
	}
	for _, c := range []struct {
		processors, percent string
		want                [2]int
	}{
		{"", "", [2]int{1, 50}},
		{"3", "", [2]int{3, 50}},
		{"", "77", [2]int{1, 77}},
	} {
		t.Setenv("GOMAXPROCS", c.processors)
		t.Setenv("GOGC", c.percent)
		restore := frugal()
		if got := settings(); got != c.want {
			t.Errorf("$GOMAXPROCS=%s $GOGC=%s: got %v, want %v", c.processors, c.percent, got, c.want)
		}
		restore()
		if got := settings(); got != [2]int{3, 77} {
			t.Errorf("left %v behind", got)
		}
	}
}
