// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"
)

// report is the result of one suite.
type report struct {
	Name       string
	Passed     int
	Skipped    int
	Failed     []string // tests and packages
	Reason     string   // why the suite failed; "": it passed
	Seconds    float64
	CPUSeconds float64
}

func (r report) failure() error {
	if r.Reason == "" {
		return nil
	}
	return errors.New(r.Reason)
}

func (r report) write(dir string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.Name+".json"), text, 0o644)
}

func readReport(dir, name string) report {
	var r report
	text, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		r = report{Reason: "did not end: " + err.Error()}
	}
	r.Name = name
	return r
}

// printTotal prints a line for each suite, and the names of failed tests. The error
// is not nil if a suite failed.
func printTotal(out io.Writer, dir string, suites []string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nsuite\tresult\tpassed\tfailed\tskipped\ttime\tCPU")
	var failed []report
	for _, name := range suites {
		r, result := readReport(dir, name), "ok"
		if r.Reason != "" {
			failed, result = append(failed, r), "FAILED"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%v\t%v\n", r.Name, result, r.Passed, len(r.Failed), r.Skipped,
			rounded(r.Seconds), rounded(r.CPUSeconds))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range failed {
		fmt.Fprintf(out, "%s failed: %s\n", r.Name, r.Reason)
		for _, name := range r.Failed {
			fmt.Fprintf(out, "    %s\n", name)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d suites failed", len(failed), len(suites))
	}
	return nil
}

func rounded(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second)
}
