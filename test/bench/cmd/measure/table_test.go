// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"gonum.org/v1/plot/plotter"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestReport_Write: the tables replace those of the page, with dnsconfigurer first, and the charts are files.
func TestReport_Write(t *testing.T) {
	r := new(report)
	r.Add("CPU time, µs", "unbounded", "NSD", 10)
	r.Add("CPU time, µs", "unbounded", nameOurs, 8.25)
	r.Add("CPU time, µs", "2000 per second", "NSD", 1234.5)
	r.charts = append(r.charts, chart{name: "cpu", x: axis{"queries per second", true},
		lines: []line{{nameOurs, plotter.XYs{{X: 10, Y: 1}, {X: 100, Y: 2}}}}})
	docs := t.TempDir()
	page := filepath.Join(docs, "benchmarks.md")
	const before, after = "# Benchmarks\n\n" + firstLine, lastLine + "\nThe end.\n"
	must.Succeed(t, os.WriteFile(page, []byte(before+"old tables\n"+after), 0o600))
	must.Succeed(t, os.Mkdir(filepath.Join(docs, "diagrams"), 0o700))
	must.Succeed(t, r.write(docs))
	const want = before + `
| CPU time, µs | unbounded | 2000 per second |
|---|---|---|
| dnsconfigurer | 8.25 | - |
| NSD | 10 (0.82) | 1234 |

` + after
	if got, err := os.ReadFile(page); err != nil || string(got) != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, got, want)
	}
	if f, err := os.Stat(filepath.Join(docs, "diagrams", "cpu.svg")); err != nil || f.Size() == 0 {
		t.Error(f, err)
	}
}

func TestPercentile(t *testing.T) {
	values := []float64{4, 1, 3, 2}
	for p, want := range map[int]float64{0: 1, 25: 1, 50: 2, 51: 3, 99: 4, 100: 4} {
		if got := percentile(values, p); got != want {
			t.Errorf("%d %%: %v, want %v", p, got, want)
		}
	}
	if median(nil) != 0 {
		t.Error("the median of nothing is not 0")
	}
}
