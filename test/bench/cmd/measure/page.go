// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// write replaces the tables of benchmarks.md in a directory, and the plots in diagrams below it.
func (r *report) write(docs string) error {
	path := filepath.Join(docs, "benchmarks.md")
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(page, []byte(firstLine))
	_, after, found2 := bytes.Cut(rest, []byte(lastLine))
	if !found || !found2 {
		return fmt.Errorf("%s: no lines %q and %q", path, firstLine, lastLine)
	}
	tables := fmt.Sprintf("%s\n%s\n%s", firstLine, r, lastLine)
	err = os.WriteFile(path, slices.Concat(before, []byte(tables), after), 0o644)
	for _, c := range r.charts {
		err = errors.Join(err, c.draw(filepath.Join(docs, "diagrams", c.name+".svg")))
	}
	return err
}

// The lines of the page around the tables.
const (
	firstLine = "<!-- written by make bench-dns -->\n"
	lastLine  = "<!-- end -->\n"
)

// chart is a plot with a line for each server.
type chart struct {
	name   string // of the file
	x, y   axis
	rising bool // the upper left is free for the legend, else the upper right
	lines  []line
}

type axis struct {
	label       string
	logarithmic bool
}

type line struct {
	name   string
	points plotter.XYs
}

// draw writes the chart in SVG.
func (c chart) draw(path string) error {
	p := plot.New()
	for from, to := range map[*axis]*plot.Axis{&c.x: &p.X, &c.y: &p.Y} {
		to.Label.Text = from.label
		if from.logarithmic {
			const digits = 7
			to.Scale, to.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: digits}
		}
	}
	p.Legend.Top, p.Legend.Left = true, c.rising
	var args []any
	for _, l := range c.lines {
		args = append(args, l.name, l.points)
	}
	if err := plotutil.AddLinePoints(p, args...); err != nil {
		return err
	}
	if !c.y.logarithmic {
		p.Y.Min = 0
	}
	p.X.Max *= 1.1 // labels at the end are cut otherwise
	return p.Save(16*vg.Centimeter, 10*vg.Centimeter, path)
}
