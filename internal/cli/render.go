// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"

	"github.com/dnsconfigurer/dnsconfigurer/internal/nodefacts"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Options are the flags of the command render, except those of the node.
type RenderOptions struct {
	Input  kube.Input
	Format string // resolv.conf, json or explain
}

// Register adds the flags.
func (o *RenderOptions) Register(flags *pflag.FlagSet) {
	o.Input.Register(flags)
	usage.FormatFlag(flags, &o.Format, "`FORMAT`: resolv.conf, json (JSON Lines, one for each object) or explain",
		"resolv.conf", "json", "explain")
}

// Run writes the decision about each pod of the manifests on a node. passed is false if a pod would
// not start, or a finding has the severity error. The error is about the node, a document that
// cannot be read, or writing.
func (o *RenderOptions) Run(ctx context.Context, node nodefacts.Node,
	stdin io.Reader, stdout, stderr io.Writer) (passed bool, err error) {
	engine, err := node.Engine()
	if err != nil {
		return false, err
	}
	rules, err := admission.New(node.Node, nil)
	if err != nil {
		return false, err
	}
	host, findings := node.Host()
	WriteFindings(stderr, append(node.Findings, findings...))

	m, readErr := o.Input.ReadPods(stdin)
	WriteNotes(stderr, m)
	out := Renderer{Stdout: stdout, Stderr: stderr, Format: o.Format}
	if node.HostAssumed {
		out.HostNote = fmt.Sprintf("pods get the search domains or servers in %s of this machine: "+
			"set --resolv-conf to that of a node", node.ResolvConf)
	}
	passed = true
	for _, w := range m.Workloads {
		w = w.OnNode(o.Input.Namespace, node.Name)
		d := engine.Decide(w.PolicyPod(), host)
		object := AdmissionObject(w, node.Name)
		if d.Findings, err = rules.AddRefusals(ctx, object, d.Findings); err != nil {
			return false, err
		}
		d.Findings = w.WithFields(d.Findings)
		if errors.Is(host.Err, fs.ErrNotExist) {
			hintElsewhere(d.Findings)
		}
		if isSystem(w) {
			d.Findings = forSystem(d.Findings)
		}
		d.Error = cmp.Or(admission.ManifestError(object, d.Findings), d.Error)
		passed = passed && d.Starts() && !slices.ContainsFunc(d.Findings, policy.Finding.IsError)
		if err := out.Write(w, &d); err != nil {
			return false, err
		}
	}
	return passed, readErr
}

// ElsewhereHint is the hint about a file of the node that this machine does not have.
const ElsewhereHint = "not on this machine: set --resolv-conf to a copy of the node's file"

// hintElsewhere changes the hint about a missing resolv.conf: the command may run on another machine than the node.
func hintElsewhere(findings []policy.Finding) {
	for i, f := range findings {
		if f.Code == policy.CodeHostFileRefused {
			findings[i].Hint = ElsewhereHint
		}
	}
}

// Renderer writes the decisions about the pods of one node.
type Renderer struct {
	Stdout io.Writer // receives the decisions
	Stderr io.Writer // receives the findings in the format resolv.conf
	Format string    // resolv.conf, json or explain

	// HostNote is written to Stderr once, if a pod gets something of the host's resolv.conf.
	// "": none.
	HostNote string

	written map[string]bool // messages about the node, which are the same for all pods
}

// Write writes the decision about w's pod.
func (r *Renderer) Write(w kube.Workload, d *policy.Decision) error {
	title := fmt.Sprintf("# %s %s/%s\n", w.Kind, w.Pod.Namespace, w.Name)
	isOfHost := func(e policy.Entry) bool { return e.Source.Origin == policy.FromHost }
	if r.HostNote != "" && slices.ContainsFunc(slices.Concat(d.Nameservers, d.Searches, d.Options), isOfHost) {
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
		title += podConfig(d, windows).String()
	}
	_, err := io.WriteString(r.Stdout, title)
	return err
}

// windowsTitle is printed for a pod of Windows.
const windowsTitle = "# Windows has no resolv.conf: it gets the nameservers and the first search domain, no options\n"

// podConfig returns what is configured in the containers of a pod.
func podConfig(d *policy.Decision, windows bool) resolvconf.Config {
	c := d.Config()
	if windows {
		c.Searches, c.Options = c.Searches[:min(len(c.Searches), 1)], []string{}
	}
	return c
}

// writeFinding writes a finding about w. A finding about the node is written once.
func (r *Renderer) writeFinding(w kube.Workload, f policy.Finding) {
	if !aboutNode(f) {
		subject := Subject{Kind: w.Kind, Namespace: w.Pod.Namespace, Name: w.Name}
		fmt.Fprintf(r.Stderr, "dnsconfigurer: %s: %s: %s: %s: %s\nhint: %s\n", place(w.At(f.Field)),
			f.Severity, visible(subject.String()), visible(f.Field), visible(f.Message), hint(f))
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
	c := podConfig(d, kube.IsWindows(&w.Pod.Spec))
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
