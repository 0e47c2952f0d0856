// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/workload"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/manifest"
	"github.com/dnsconfigurer/dnsconfigurer/internal/output"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

func renderCommand() *cobra.Command {
	r := renderFlags{}
	cmd := &cobra.Command{
		Use:   "render FILE|DIR|-...",
		Short: "Print the resolv.conf and the host name that pods get",
		Long: `Print the resolv.conf and the host name that a node gives to each Pod and to the pods of
each template (Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Job,
CronJob, PodTemplate, List) in YAML or JSON.

The result is the kubelet's, with the exceptions listed in docs/divergences.md. Warnings
are written to standard error. Exit code 1: a file cannot be read, or a finding has the
severity error, for example because the pod would not start or the API server refuses it.`,
		Example: `  dnsconfigurer render examples/ --resolv-conf examples/node/resolv.conf
  dnsconfigurer render examples/autopath.yaml -o explain --config examples/node/shim.yaml
  kubectl get deployments -A -o yaml | dnsconfigurer render - -o json`,
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd, args) },
	}
	addManifestFlags(cmd.Flags(), &r.manifests)
	usage.FormatFlag(cmd, &r.output, "`FORMAT`: resolv.conf, json (JSON Lines, one for each object) or explain", output.RenderFormats...)
	r.node.Register(cmd.Flags())
	return cmd
}

type renderFlags struct {
	manifests manifest.Input
	output    string
	node      config.NodeFlags
}

func (r *renderFlags) run(cmd *cobra.Command, args []string) error {
	r.manifests.Paths = append(r.manifests.Paths, args...)
	if err := cmp.Or(usage.CheckFormat(r.output, output.RenderFormats...), r.manifests.Check()); err != nil {
		return err
	}
	node, err := r.node.Load()
	if err != nil {
		return err
	}
	engine, err := node.Engine()
	if err != nil {
		return err
	}
	rules, err := admission.New(node.Node, nil)
	if err != nil {
		return err
	}
	host, findings := node.Host()
	output.WriteFindings(cmd.ErrOrStderr(), append(node.Findings, findings...))

	m, readErr := r.manifests.ReadPods(cmd.InOrStdin())
	output.WriteNotes(cmd.ErrOrStderr(), m)
	out := output.Renderer{Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(), Format: r.output}
	if node.HostAssumed {
		out.HostNote = fmt.Sprintf("pods get the search domains or servers in %s of this machine: "+
			"set --resolv-conf to that of a node", node.ResolvConf)
	}
	failed := false
	for _, w := range m.Workloads {
		w = w.OnNode(r.manifests.Namespace, node.Name)
		d := engine.Decide(w.PolicyPod(), host)
		o := workload.Object(w, node.Name)
		if d.Findings, err = rules.AddRefusals(cmd.Context(), o, d.Findings); err != nil {
			return err
		}
		d.Error = cmp.Or(admission.ManifestError(o, d.Findings), d.Error)
		failed = failed || !d.Starts() || slices.ContainsFunc(d.Findings, policy.Finding.IsError)
		if err := out.Write(w, &d); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	}
	if readErr == nil && failed {
		return errReported
	}
	return readErr
}
