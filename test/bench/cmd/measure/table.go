// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// report holds measured figures as tables and charts. The zero report is empty.
type report struct {
	tables []*table
	charts []chart
}

// table has a row for each server, dnsconfigurer first, with a figure in each column or none.
type table struct {
	title            string // with the unit
	columns, servers []string
	figures          map[cell]float64
}

type cell struct{ column, server string }

// Add adds a figure to the table with a title.
func (r *report) Add(title, column, server string, value float64) {
	t := r.table(title)
	if t == nil {
		t = &table{title: title, figures: map[cell]float64{}}
		r.tables = append(r.tables, t)
	}
	if !slices.Contains(t.columns, column) {
		t.columns = append(t.columns, column)
	}
	switch {
	case slices.Contains(t.servers, server):
	case server == nameOurs:
		t.servers = slices.Insert(t.servers, 0, server)
	default:
		t.servers = append(t.servers, server)
	}
	t.figures[cell{column, server}] = value
}

// table returns the table with a title, nil if there is none.
func (r *report) table(title string) *table {
	if i := slices.IndexFunc(r.tables, func(t *table) bool { return t.title == title }); i >= 0 {
		return r.tables[i]
	}
	return nil
}

// String returns the tables in Markdown. The figure of dnsconfigurer divided by another one is in parentheses: below
// 1, dnsconfigurer costs less.
func (r *report) String() string {
	var b strings.Builder
	for i, t := range r.tables {
		if i > 0 {
			fmt.Fprintln(&b)
		}
		fmt.Fprintf(&b, "| %s | %s |\n|---%s|\n", t.title, strings.Join(t.columns, " | "), strings.Repeat("|---", len(t.columns)))
		for _, server := range t.servers {
			fmt.Fprintf(&b, "| %s |", server)
			for _, column := range t.columns {
				fmt.Fprintf(&b, " %s |", t.figure(column, server))
			}
			fmt.Fprintln(&b)
		}
	}
	return b.String()
}

// figure returns the text of a cell.
func (t *table) figure(column, server string) string {
	v, measured := t.figures[cell{column, server}]
	if !measured {
		return "-"
	}
	text := fmt.Sprintf("%.3g", v)
	if v >= 1000 {
		text = fmt.Sprintf("%.0f", v)
	}
	if own, ok := t.figures[cell{column, nameOurs}]; ok && server != nameOurs && v > 0 {
		text += fmt.Sprintf(" (%.2f)", own/v)
	}
	return text
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
