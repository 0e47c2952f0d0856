// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/manifest"
	"github.com/dnsconfigurer/dnsconfigurer/internal/output"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Options are the flags of the command render, except those of the node.
type RenderOptions struct {
	Input  manifest.Input
	Format string // one of output.RenderFormats
}

// Register adds the flags.
func (o *RenderOptions) Register(flags *pflag.FlagSet) {
	o.Input.Register(flags)
	usage.FormatFlag(flags, &o.Format, "`FORMAT`: resolv.conf, json (JSON Lines, one for each object) or explain", output.RenderFormats...)
}

// Run writes the decision about each pod of the manifests on a node. passed is false if a pod would
// not start, or a finding has the severity error. The error is about the node, a document that
// cannot be read, or writing.
func (o *RenderOptions) Run(ctx context.Context, node config.Node,
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
	output.WriteFindings(stderr, append(node.Findings, findings...))

	m, readErr := o.Input.ReadPods(ctx, stdin)
	output.WriteNotes(stderr, m)
	out := output.Renderer{Stdout: stdout, Stderr: stderr, Format: o.Format}
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
		d.Error = cmp.Or(admission.ManifestError(object, d.Findings), d.Error)
		passed = passed && d.Starts() && !slices.ContainsFunc(d.Findings, policy.Finding.IsError)
		if err := out.Write(w, &d); err != nil {
			return false, err
		}
	}
	return passed, readErr
}
