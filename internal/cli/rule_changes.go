// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodefacts"
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
			Rules: appliedRules(after.NodeRules), Before: v1alpha1.ResolvConf(a), After: v1alpha1.ResolvConf(b),
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

// diff returns the lines of a with "-" and those of b with "+", of the lists that differ.
func diff(a, b resolvconf.Config) string {
	var text strings.Builder
	for _, part := range []struct{ a, b resolvconf.Config }{
		{resolvconf.Config{Nameservers: a.Nameservers}, resolvconf.Config{Nameservers: b.Nameservers}},
		{resolvconf.Config{Searches: a.Searches}, resolvconf.Config{Searches: b.Searches}},
		{resolvconf.Config{Options: a.Options}, resolvconf.Config{Options: b.Options}},
	} {
		before, after := part.a.String(), part.b.String()
		if before == after {
			continue
		}
		for line := range strings.Lines(before) {
			text.WriteString("- " + visibleLines(line))
		}
		for line := range strings.Lines(after) {
			text.WriteString("+ " + visibleLines(line))
		}
	}
	return text.String()
}

// nodeRules decides with and without the node rules of a configuration file.
type nodeRules struct {
	Node nodefacts.Node

	with, without *policy.Engine
	host          resolvconf.File
}

// loadRules reads the node rules of a ShimConfiguration or an AgentConfiguration, and the files with the
// facts of the node. No other kind has rules. The paths of fields only are those of another machine: the
// node is that of [nodefacts.FromFields] then.
func loadRules(f config.File, fieldsOnly bool) (*nodeRules, error) {
	kind, err := f.Kind()
	if err != nil {
		return nil, err
	}
	if kind != v1alpha1.KindShim && kind != v1alpha1.KindAgent {
		return nil, fmt.Errorf("%s: kind %s has no node rules: use -f with a %s or an %s only",
			f.Path, kind, v1alpha1.KindShim, v1alpha1.KindAgent)
	}
	r := &nodeRules{}
	if fieldsOnly {
		r.Node, err = nodefacts.FromFields(f)
	} else {
		r.Node, err = nodefacts.FromFile(f, kind)
	}
	if err != nil {
		return nil, err
	}
	if r.with, err = r.Node.Engine(); err != nil {
		return nil, err
	}
	plain := r.Node
	plain.Rules = nil
	if r.without, err = plain.Engine(); err != nil {
		return nil, err
	}
	r.host, _ = r.Node.Host()
	return r, nil
}
