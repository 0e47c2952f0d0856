// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodestatus"
)

const (
	watchInterval = 2 * time.Second

	tableWidth   = 100
	minPodColumn = 10
)

// podHeader has the names of the columns.
var podHeader = []string{"POD", "POLICY", "SOURCE", "OUTCOME", "DRIFT", "REFRESHED"}

func podsCommand() *cobra.Command {
	client, format, watch := nodestatus.Client{}, "", false
	cmd := &cobra.Command{
		Use:   "pods [NAMESPACE/NAME]",
		Short: "Print the pods of this node, their DNS policy, and whether their resolv.conf is as decided",
		Long: `Print the pods of this node as the node agent knows them: the policy and its source (the
specification or the annotation dnsconfigurer.dev/policy), the outcome of the decision, how
the resolv.conf differs from the decision, and when it was last rewritten.

With the name of a pod, print the expected and the actual file, too.

Run it as root on the node, while dnsconfigurer agent runs.`,
		Example: `  dnsconfigurer pods
  dnsconfigurer pods shop/web-0
  dnsconfigurer pods --watch
  dnsconfigurer pods -o json`,
		Args: atMostOnePod,
	}
	registerSocket(cmd, &client)
	cmd.Flags().StringVarP(&format, "output", "o", "text", "`FORMAT`: text or json")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "print the pods again every 2 seconds, until interrupted")
	completeFlag(cmd, "output", "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(format, "text", "json"); err != nil {
			return err
		}
		pod := ""
		if len(args) > 0 {
			pod = args[0]
		}
		if watch {
			return watchPods(cmd, client, pod, format)
		}
		return printPods(cmd.Context(), cmd.OutOrStdout(), client, pod, format)
	}
	return cmd
}

// watchPods prints the pods until the command is interrupted.
func watchPods(cmd *cobra.Command, client nodestatus.Client, pod, format string) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	for ctx.Err() == nil {
		if isTerminal(out) {
			fmt.Fprint(out, "\x1b[H\x1b[2J") // ECMA-48: cursor to the first line, erase the page
		}
		if err := printPods(ctx, out, client, pod, format); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-time.After(watchInterval):
		case <-ctx.Done():
		}
	}
	return nil
}

func printPods(ctx context.Context, out io.Writer, client nodestatus.Client, pod, format string) error {
	pods, err := client.Pods(ctx)
	if err != nil {
		return err
	}
	if pod != "" {
		if pods.Pods = selectPod(pods.Pods, pod); len(pods.Pods) == 0 {
			return fmt.Errorf("%w: %s: dnsconfigurer pods lists those of this node", nodestatus.ErrUnknownPod, pod)
		}
	}
	switch {
	case format == "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(pods)
	case pod != "":
		for i := range pods.Pods {
			writePod(out, &pods.Pods[i])
		}
	default:
		err = writePodTable(out, pods.Pods)
	}
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

func selectPod(pods []v1alpha1.NodePod, pod string) (selected []v1alpha1.NodePod) {
	for _, p := range pods {
		if p.Namespace+"/"+p.Name == pod {
			selected = append(selected, p)
		}
	}
	return selected
}

// writePodTable writes one line for each pod, of at most 100 columns: the name of the pod gets
// the columns that the others leave.
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
func writePod(out io.Writer, p *v1alpha1.NodePod) {
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
