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

// RenderFormats are the formats of a Renderer.
var RenderFormats = []string{"resolv.conf", "json", "explain"}

// Renderer writes the decisions about the pods of one node.
type Renderer struct {
	Stdout io.Writer // receives the decisions
	Stderr io.Writer // receives the findings in the format resolv.conf
	Format string    // one of RenderFormats

	// HostNote is written to Stderr once, if a pod gets something of the host's resolv.conf.
	// "": none.
	HostNote string

	written map[string]bool // messages about the node, which are the same for all pods
}

// Write writes the decision about w's pod.
func (r *Renderer) Write(w kube.Workload, d *policy.Decision) error {
	title := fmt.Sprintf("# %s %s/%s\n", w.Kind, w.Pod.Namespace, w.Name)
	if r.HostNote != "" && usesHost(d) {
		fmt.Fprintf(r.Stderr, "dnsconfigurer: note: %s\n", r.HostNote)
		r.HostNote = ""
	}
	windows := kube.IsWindows(&w.Pod.Spec)
	if windows {
		title += windowsTitle
	}
	switch r.Format {
	case "json":
		return json.NewEncoder(r.Stdout).Encode(renderResult(w, d))
	case "explain":
		_, err := io.WriteString(r.Stdout, title+d.Explain())
		return err
	}
	for _, f := range d.Findings {
		if f.Severity != policy.SeverityInfo {
			r.writeFinding(w, f)
		}
	}
	if d.Starts() { // other pods have no resolv.conf
		title += config(d, windows).String()
	}
	_, err := io.WriteString(r.Stdout, title)
	return err
}

// usesHost reports whether a pod gets something of the host's resolv.conf.
func usesHost(d *policy.Decision) bool {
	return slices.ContainsFunc(slices.Concat(d.Nameservers, d.Searches, d.Options),
		func(e policy.Entry) bool { return e.Source.Origin == policy.FromHost })
}

// windowsTitle is printed for a pod of Windows.
const windowsTitle = "# Windows has no resolv.conf: it gets the nameservers and the first search domain, no options\n"

// config returns what is configured in the containers of a pod.
func config(d *policy.Decision, windows bool) resolvconf.Config {
	c := d.Config()
	if windows {
		c.Searches, c.Options = c.Searches[:min(len(c.Searches), 1)], []string{}
	}
	return c
}

// writeFinding writes a finding about w. A finding about the node is written once.
func (r *Renderer) writeFinding(w kube.Workload, f policy.Finding) {
	if !aboutNode(f) {
		fmt.Fprintf(r.Stderr, "dnsconfigurer: %s: %s: %s: %s\nhint: %s\n", place(w.At(f.Field)),
			f.Severity, visible(f.Field), visible(f.Message), hint(f))
		return
	}
	if r.written[f.Message] {
		return
	}
	if r.written == nil {
		r.written = map[string]bool{}
	}
	r.written[f.Message] = true
	fmt.Fprintf(r.Stderr, "dnsconfigurer: the node's %s: %s: %s\nhint: %s\n", f.Field, f.Severity, visible(f.Message), hint(f))
}

func renderResult(w kube.Workload, d *policy.Decision) v1alpha1.RenderResult {
	c := config(d, kube.IsWindows(&w.Pod.Spec))
	at := w.At("")
	return v1alpha1.RenderResult{
		File:        at.File,
		Document:    at.Document,
		Line:        at.Line,
		Column:      at.Column,
		Source:      at.Source,
		Kind:        w.Kind,
		Namespace:   w.Pod.Namespace,
		Name:        w.Name,
		Nameservers: c.Nameservers,
		Searches:    c.Searches,
		Options:     c.Options,
		Hostname:    d.Hostname,
		FQDN:        d.FQDN,
		Findings:    findingsAt(w.At, d.Findings),
		Error:       d.Error,
	}
}

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
