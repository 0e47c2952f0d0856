// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// RuleChanges writes what node rules change.
type RuleChanges struct {
	Stdout io.Writer
	JSON   bool // one v1alpha1.RuleChange per line

	pods, changed int
}

// Write writes the change for w's pod if there is one: before is its decision without rules.
func (r *RuleChanges) Write(w kube.Workload, before, after *policy.Decision) error {
	r.pods++
	a, b := before.Config(), after.Config()
	if a.String() == b.String() {
		return nil
	}
	r.changed++
	if r.JSON {
		at := w.At("")
		return json.NewEncoder(r.Stdout).Encode(v1alpha1.RuleChange{
			File: at.File, Document: at.Document,
			Kind: w.Kind, Namespace: w.Pod.Namespace, Name: w.Name,
			Rules: appliedRules(after.NodeRules), Before: newResolvConf(a), After: newResolvConf(b),
		})
	}
	var rules []string
	for _, applied := range after.NodeRules {
		rules = append(rules, fmt.Sprintf("%s of node.rules[%d]", applied.Rule, applied.Index))
	}
	_, err := fmt.Fprintf(r.Stdout, "%s %s/%s: %s\n%s",
		w.Kind, visible(w.Pod.Namespace), visible(w.Name), strings.Join(rules, ", "), diff(a, b))
	return err
}

// Close writes the summary, if the output is text.
func (r *RuleChanges) Close() error {
	if r.JSON {
		return nil
	}
	_, err := fmt.Fprintf(r.Stdout, "node.rules change %d of %s\n", r.changed, count(r.pods, "object"))
	return err
}

func appliedRules(rules []policy.AppliedRule) []v1alpha1.AppliedRule {
	list := []v1alpha1.AppliedRule{}
	for _, r := range rules {
		list = append(list, v1alpha1.AppliedRule{Rule: r.Rule.String(), Index: r.Index})
	}
	return list
}

func newResolvConf(c resolvconf.Config) v1alpha1.ResolvConf {
	return v1alpha1.ResolvConf{Nameservers: c.Nameservers, Searches: c.Searches, Options: c.Options}
}

// diff returns the lines of a with "-" and those of b with "+", of the lists that differ.
func diff(a, b resolvconf.Config) string {
	var text strings.Builder
	if !slices.Equal(a.Nameservers, b.Nameservers) {
		writeLines(&text, "-", resolvconf.Config{Nameservers: a.Nameservers})
		writeLines(&text, "+", resolvconf.Config{Nameservers: b.Nameservers})
	}
	if !slices.Equal(a.Searches, b.Searches) {
		writeLines(&text, "-", resolvconf.Config{Searches: a.Searches})
		writeLines(&text, "+", resolvconf.Config{Searches: b.Searches})
	}
	if !slices.Equal(a.Options, b.Options) {
		writeLines(&text, "-", resolvconf.Config{Options: a.Options})
		writeLines(&text, "+", resolvconf.Config{Options: b.Options})
	}
	return text.String()
}

func writeLines(b *strings.Builder, sign string, c resolvconf.Config) {
	for line := range strings.Lines(c.String()) {
		b.WriteString(sign + " " + visible(strings.TrimSuffix(line, "\n")) + "\n")
	}
}
