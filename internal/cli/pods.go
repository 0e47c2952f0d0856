// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

const tableWidth, minPodColumn = 100, 10

// podHeader has the names of the columns.
var podHeader = []string{"POD", "POLICY", "SOURCE", "OUTCOME", "DRIFT", "REFRESHED"}

// WriteNodePods writes the pods of a node: as JSON if the format is json, otherwise as a table,
// or with their files if pod, the name of the only one, is not "".
func WriteNodePods(w io.Writer, format, pod string, pods v1alpha1.NodePods) error {
	switch {
	case format == formatJSON:
		return WriteJSON(w, pods)
	case pod != "":
		var text strings.Builder
		for i := range pods.Pods {
			writePod(&text, &pods.Pods[i])
		}
		_, err := io.WriteString(w, text.String())
		return err
	}
	return writePodTable(w, pods.Pods)
}

// writePodTable writes one line for each pod of a node, of at most 100 columns: the name of the
// pod gets the columns that the others leave.
func writePodTable(out io.Writer, pods []v1alpha1.NodePod) error {
	rows, widths := [][]string{podHeader}, [6]int{}
	for i := range pods {
		rows = append(rows, append([]string{pods[i].Namespace + "/" + pods[i].Name}, podColumns(&pods[i])...))
	}
	rest := 0
	for column := 1; column < len(podHeader); column++ {
		for _, row := range rows {
			widths[column] = max(widths[column], len(row[column]))
		}
		rest += 1 + widths[column]
	}
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	for _, row := range rows {
		row[0] = shorten(row[0], max(tableWidth-rest, minPodColumn))
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// podColumns returns the columns of a pod after its name.
func podColumns(p *v1alpha1.NodePod) []string {
	drift, refreshed := cmp.Or(p.Drift, "-"), "-"
	if p.Restored {
		drift = "restored"
	}
	if p.LastRefresh != nil {
		refreshed = time.Since(*p.LastRefresh).Round(time.Second).String() + " ago"
	}
	return []string{cmp.Or(p.Policy, "-"), cmp.Or(p.Source, "-"), cmp.Or(p.Outcome, "-"), drift, refreshed}
}

// shorten replaces the middle of a long text.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	half := (limit - len("..")) / 2
	return s[:limit-len("..")-half] + ".." + s[len(s)-half:]
}

// writePod writes a pod with its files.
func writePod(out *strings.Builder, p *v1alpha1.NodePod) {
	columns := podColumns(p)
	for i, name := range []string{"policy", "source", "outcome", "drift", "refreshed"} {
		fmt.Fprintf(out, "%-10s %s\n", name+":", columns[i])
	}
	fmt.Fprintf(out, "%-10s %s\n%-10s %s\n", "refresh:", p.Refresh, "file:", cmp.Or(p.Path, "-"))
	if p.Error != "" {
		fmt.Fprintf(out, "%-10s %s\n", "error:", p.Error)
	}
	for _, file := range []struct{ name, text string }{{"expected", p.Expected}, {"actual", p.Actual}} {
		fmt.Fprintf(out, "%s:\n", file.name)
		for line := range strings.Lines(file.text) {
			fmt.Fprintf(out, "  %s\n", strings.TrimRight(line, " \n"))
		}
	}
}
