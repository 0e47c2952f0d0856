// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

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
	table := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintln(table, "POD\tPOLICY\tSOURCE\tOUTCOME\tDRIFT\tREFRESHED")
	for i := range pods.Pods {
		p := &pods.Pods[i]
		fmt.Fprintln(table, p.Namespace+"/"+p.Name+"\t"+strings.Join(podColumns(p), "\t"))
	}
	return table.Flush()
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

// WriteConformance writes whether a server meets each requirement: as JSON if the format is json, otherwise as text.
func WriteConformance(w io.Writer, format string, r v1alpha1.ConformanceResult) error {
	if format == formatJSON {
		return WriteJSON(w, r)
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RULE\tLEVEL\tRIGHT\tREQUIREMENT\tSOURCE")
	var failures strings.Builder
	for _, rule := range r.Rules {
		right := "-"
		if rule.Questions > 0 {
			right = fmt.Sprintf("%d of %d", rule.Questions-rule.Failed, rule.Questions)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", rule.ID, rule.Level, right, rule.Text, rule.Source)
		for _, why := range rule.Failures {
			fmt.Fprintf(&failures, "%s %s: %s\n", rule.Level, rule.ID, visible(why))
		}
	}
	_ = table.Flush() // a strings.Builder has no errors
	if failures.Len() > 0 {
		b.WriteString("\n" + failures.String())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ReadAdvice reads the output of an earlier `advise -o json`.
func ReadAdvice(path string) (r v1alpha1.AdviseResult, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s: not the output of advise -o json: %w", path, err)
	}
	return r, nil
}

// maxAdvised is the number of workloads that the text describes. JSON has all.
const maxAdvised = 20

// WriteAdvice writes what workloads ask and could save: as JSON if the format is json, otherwise as text. The text has the queries of the
// workloads in before, too.
func WriteAdvice(w io.Writer, format string, r, before v1alpha1.AdviseResult) error {
	if format == formatJSON {
		return WriteJSON(w, r)
	}
	type key struct{ namespace, kind, name string }
	earlier := map[key]v1alpha1.WorkloadAdvice{}
	for _, a := range before.Workloads {
		earlier[key{a.Namespace, a.Kind, a.Name}] = a
	}
	var b strings.Builder
	fmt.Fprintf(&b, "servers: %d, hours: %.1f, queries of pods: %s a day, of other clients: %s\n",
		r.Servers, r.Hours, thousands(r.QueriesPerDay), thousands(r.OthersPerDay))
	described := 0
	for _, a := range r.Workloads {
		old, known := earlier[key{a.Namespace, a.Kind, a.Name}]
		if len(a.Cures) == 0 && !known || described >= maxAdvised {
			continue
		}
		described++
		fmt.Fprintf(&b, "\n%s: %s queries a day", visible(a.Kind+" "+a.Namespace+"/"+a.Name), thousands(a.QueriesPerDay))
		if known {
			fmt.Fprintf(&b, ", %s before", thousands(old.QueriesPerDay))
		}
		fmt.Fprintf(&b, "; wasted by search domains: %s\n", thousands(a.WastedPerDay))
		for _, c := range a.Cures {
			fmt.Fprintf(&b, "  saves %s: %s (%s)\n", thousands(c.SavesPerDay), visible(c.Message), c.Code)
			if c.Patch != "" {
				fmt.Fprintf(&b, "    %s\n", visible(c.Patch))
			}
		}
	}
	fmt.Fprintf(&b, "\nworkloads: %d, described: %d\n", len(r.Workloads), described)
	for _, why := range r.NotRead {
		fmt.Fprintf(&b, "not read: %s\n", visible(why))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// thousands returns n with a comma before each three digits.
func thousands(n uint64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// WriteRules writes what each code of a finding means, one a line, or with a code what that one means.
func WriteRules(w io.Writer, code string) error {
	type rule struct{ code, severity, by, text string }
	var rules []rule
	for _, d := range admission.CodeDocs() {
		rules = append(rules, rule{string(d.Code), d.Severity, d.EnforcedBy, d.Text})
	}
	for _, c := range doctor.Checks() {
		rules = append(rules, rule{c.Code, c.Severity, "doctor", c.What})
	}
	var codes []string
	for _, r := range rules {
		switch codes = append(codes, r.code); code {
		case "":
			if _, err := fmt.Fprintf(w, "%-26s  %-14s  %s\n", r.code, r.severity, r.text); err != nil {
				return err
			}
		case r.code:
			by := "enforced by: " + r.by
			if r.by == "doctor" {
				by = "reported by: dnsconfigurer doctor"
			}
			_, err := fmt.Fprintf(w, "%s\nseverity:    %s\n%s\nmeaning:     %s\n", r.code, r.severity, by, r.text)
			return err
		}
	}
	if code == "" {
		return nil
	}
	return usage.Errorf("unknown code %s%s", excerpt.Quote(code), cmp.Or(excerpt.DidYouMean(code, "", codes),
		": docs/checks.md#rules-rules has the rules of render, such as H1"))
}
