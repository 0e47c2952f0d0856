// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// table holds measured figures. The zero table is empty.
type table struct{ rows []row }

type row struct {
	title, server, unit string
	value               float64
}

// Add adds a figure to a title.
func (t *table) Add(title, server string, value float64, unit string) {
	t.rows = append(t.rows, row{title, server, unit, value})
}

// String returns the table in Markdown. The ratio is the figure of dnsconfigurer divided by
// the server's: below 1, dnsconfigurer costs less.
func (t *table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| what | server | figure | %s / it |\n|---|---|---|---|\n", nameOurs)
	for _, r := range t.rows {
		ratio := "-"
		i := slices.IndexFunc(t.rows, func(o row) bool { return o.title == r.title && o.server == nameOurs })
		if i >= 0 && r.server != nameOurs && r.value > 0 {
			ratio = fmt.Sprintf("%.2f", t.rows[i].value/r.value)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.title, r.server, strings.TrimSpace(figure(r.value)+" "+r.unit), ratio)
	}
	return b.String()
}

// figure formats three digits, or all of an integer.
func figure(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// median returns the median of values.
func median(values []float64) float64 { return percentile(values, 50) }

// percentile returns the smallest of values that p percent of them do not exceed.
func percentile(values []float64, p int) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}
