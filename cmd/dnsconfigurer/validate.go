// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/manifest"
	"github.com/dnsconfigurer/dnsconfigurer/internal/output"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

func validateCommand() *cobra.Command {
	v := validateFlags{}
	cmd := &cobra.Command{
		Use:   "validate -f FILE|DIR|-",
		Short: "Check the DNS configuration and the host names of pods before they are applied",
		Long: `Check the DNS configuration and the host names of each Pod and each template
(Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Job, CronJob,
PodTemplate, List) in YAML or JSON: values that the API server or the node would refuse,
that the node would truncate, and that no C library supports. Objects of other kinds are
ignored.

The result does not depend on this machine: the host's resolv.conf is only used if
--resolv-conf is set. Exit code 1: there is an error; warnings do not count.
docs/admission.md lists the rules and shows the use in a pipeline.`,
		Example: `  dnsconfigurer validate -f examples/
  dnsconfigurer validate -f examples/trouble/ -o github --cluster-domain corp.example
  helm template chart/ -n shop | dnsconfigurer validate -f - -n shop`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return v.run(cmd) },
	}
	cmd.Flags().StringArrayVarP(&v.files, "filename", "f", nil, "`FILE|DIR|-` with manifests; repeatable")
	cmd.Flags().StringVarP(&v.namespace, "namespace", "n", "default", "`NAMESPACE` of objects without one")
	cmd.Flags().StringVarP(&v.output, "output", "o", "text", "`FORMAT`: text, json (one object per line) or github (annotations for GitHub Actions)")
	v.node.RegisterWithoutHost(cmd.Flags())
	completeFlag(cmd, "output", output.ValidateFormats...)
	return cmd
}

type validateFlags struct {
	files     []string
	namespace string
	output    string
	node      config.NodeFlags
}

func (v *validateFlags) run(cmd *cobra.Command) error {
	if err := checkOutput(v.output, output.ValidateFormats...); err != nil {
		return err
	}
	if len(v.files) == 0 {
		return usageError{errors.New("no manifests: set -f")}
	}
	node, err := v.node.Load()
	if err != nil {
		return err
	}
	rules, err := v.rules(cmd, node)
	if err != nil {
		return err
	}
	output.WriteFindings(cmd.ErrOrStderr(), node.Findings)

	m, readErr := manifest.Read(v.files, cmd.InOrStdin())
	output.WriteNotes(cmd.ErrOrStderr(), m.Notes)
	if err := manifest.CheckPods(v.files, m); err != nil && readErr == nil {
		output.WriteError(cmd.ErrOrStderr(), err)
	}
	objects := v.objects(m.Workloads, node.Name)
	collisions := admission.Collisions(objects)
	out := output.Validation{Stdout: cmd.OutOrStdout(), Format: v.output}
	failed := false
	for i, o := range objects {
		findings, err := rules.Check(cmd.Context(), o)
		if err != nil {
			return err
		}
		findings = append(findings, collisions[i]...)
		failed = failed || slices.ContainsFunc(findings, policy.Finding.IsError)
		if err := out.Write(m.Workloads[i], findings); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	}
	if readErr != nil {
		return cmp.Or(out.WriteError(readErr), readErr)
	}
	if failed {
		return errReported
	}
	return nil
}

// objects returns the objects to check, and sets the namespace and the node of workloads.
func (v *validateFlags) objects(workloads []kube.Workload, node string) []admission.Object {
	objects := make([]admission.Object, len(workloads))
	for i, w := range workloads {
		w = w.OnNode(v.namespace, node)
		workloads[i] = w
		objects[i] = admission.Object{
			Kind: w.Kind, Name: w.Name, GeneratedName: w.GeneratedName, Pod: w.PolicyPod(), Ordinal: w.Ordinals.Base != "",
		}
		if w.Kind == admission.KindPod { // with a node, it is a static pod
			objects[i].Node = node
		}
	}
	return objects
}

// rules returns the rules for a node. Its resolv.conf is unknown unless --resolv-conf is
// set: that of this machine would make the result depend on where the command runs.
func (v *validateFlags) rules(cmd *cobra.Command, n config.Node) (*admission.Rules, error) {
	if _, err := n.Engine(); err != nil { // the error has the name of the flag
		return nil, err
	}
	if !cmd.Flags().Changed("resolv-conf") {
		return admission.New(n.Node, nil)
	}
	host, _ := n.Host()
	return admission.New(n.Node, &host)
}
