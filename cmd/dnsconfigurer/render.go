// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/manifest"
	"github.com/dnsconfigurer/dnsconfigurer/internal/output"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

func renderCommand() *cobra.Command {
	r := renderFlags{}
	cmd := &cobra.Command{
		Use:   "render -f FILE|DIR|-",
		Short: "Print the resolv.conf and the host name that pods get",
		Long: `Print the resolv.conf and the host name that a node gives to each Pod and to the pods of
each template (Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Job,
CronJob, PodTemplate, List) in YAML or JSON.

The result is the kubelet's, with the exceptions listed in docs/divergences.md. Warnings
are written to standard error. Exit code 1: a file cannot be read, or a finding has the
severity error, for example because the pod would not start.`,
		Example: `  dnsconfigurer render -f examples/ --resolv-conf examples/node/resolv.conf
  dnsconfigurer render -f examples/autopath.yaml -o explain --config examples/node/shim.yaml
  kubectl get deployments -A -o yaml | dnsconfigurer render -f - -o json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd) },
	}
	cmd.Flags().StringArrayVarP(&r.files, "filename", "f", nil, "`FILE|DIR|-` with manifests; repeatable")
	cmd.Flags().StringVarP(&r.namespace, "namespace", "n", "default", "`NAMESPACE` of objects without one")
	cmd.Flags().StringVarP(&r.output, "output", "o", "resolv.conf", "`FORMAT`: resolv.conf, json (one object per line) or explain")
	r.node.Register(cmd.Flags())
	completeFlag(cmd, "output", output.RenderFormats...)
	return cmd
}

type renderFlags struct {
	files     []string
	namespace string
	output    string
	node      config.NodeFlags
}

func (r *renderFlags) run(cmd *cobra.Command) error {
	if err := checkOutput(r.output, output.RenderFormats...); err != nil {
		return err
	}
	if len(r.files) == 0 {
		return usageError{errors.New("no manifests: set -f")}
	}
	node, err := r.node.Load()
	if err != nil {
		return err
	}
	engine, err := node.Engine()
	if err != nil {
		return err
	}
	host, findings := node.Host()
	output.WriteFindings(cmd.ErrOrStderr(), append(node.Findings, findings...))

	m, readErr := manifest.ReadPods(r.files, cmd.InOrStdin())
	output.WriteNotes(cmd.ErrOrStderr(), m.Notes)
	out := output.Renderer{Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(), Format: r.output, Titles: len(m.Workloads) > 1}
	failed := false
	for _, w := range m.Workloads {
		w = w.OnNode(r.namespace, node.Name)
		d := engine.Decide(w.PolicyPod(), host)
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
