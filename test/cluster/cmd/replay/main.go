// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Command replay compares pkg/policy with recorded cases and exits 1 at the first
// difference. It does not link the kubelet, so that it builds quickly for each mutant of
// the engine.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/test/cluster/cases"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: replay CASES.ndjson")
		os.Exit(2)
	}
	difference, err := replay(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(2)
	}
	if difference != "" {
		fmt.Println(difference)
		os.Exit(1)
	}
}

// replay returns the first difference.
func replay(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	d := json.NewDecoder(bufio.NewReader(f))
	for {
		var c cases.Case
		if err := d.Decode(&c); errors.Is(err, io.EOF) {
			return "", nil
		} else if err != nil {
			return "", err
		}
		kubelet := c.Expected
		if c.Kubelet != nil {
			kubelet = c.Kubelet
		}
		if diffs := append(cases.Diff(c, *c.Expected), cases.DiffKubelet(c, *kubelet)...); len(diffs) > 0 {
			return c.ID + ": " + strings.Join(diffs, "; "), nil
		}
	}
}
