// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/manifest"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

func validateCommand() *cobra.Command {
	v := validator{}
	cmd := &cobra.Command{
		Use:   "validate -f FILE|DIR|-",
		Short: "Check the DNS and the host names of pods and templates before they are applied",
		Long: `Check every Pod and every template (Deployment, StatefulSet, DaemonSet,
ReplicaSet, ReplicationController, Job, CronJob, PodTemplate, List) in YAML or JSON:
what the API server would refuse, what the node would refuse or cut, and what works in
no container. Objects of other kinds are passed over.

The result does not depend on the machine: the host's resolv.conf counts only when
--resolv-conf gives it. Exit code 1 when there is an error; warnings do not count.
docs/admission.md has the rules, and how to use them in a pipeline.`,
		Example: `  dnsconfigurer validate -f deploy/
  helm template chart/ -n shop | dnsconfigurer validate -f - -n shop
  dnsconfigurer validate -f deploy/ -o github --cluster-domain corp.example`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return v.run(cmd) },
	}
	cmd.Flags().StringArrayVarP(&v.files, "filename", "f", nil, "`FILE|DIR|-` to read; repeatable")
	cmd.Flags().StringVarP(&v.namespace, "namespace", "n", "default", "`NAMESPACE` of objects that name none")
	cmd.Flags().StringVarP(&v.output, "output", "o", "text", "`FORMAT`: text, json (one object a line) or github (annotations of a workflow)")
	v.node.RegisterWithoutHost(cmd.Flags())
	return cmd
}

type validator struct {
	files     []string
	namespace string
	output    string
	node      config.NodeFlags
}

func (v *validator) run(cmd *cobra.Command) error {
	if err := outputFlag(v.output, "text", "json", "github"); err != nil {
		return err
	}
	if len(v.files) == 0 {
		return usageError{errors.New("-f is missing")}
	}
	node, rules, err := v.rules(cmd)
	if err != nil {
		return err
	}
	reportFindings(cmd.ErrOrStderr(), node.Findings)

	m, unread := manifest.Read(v.files, cmd.InOrStdin())
	if err := manifest.CheckPods(v.files, m); err != nil && unread == nil {
		report(cmd.ErrOrStderr(), err)
	}
	objects := make([]admission.Object, 0, len(m.Workloads))
	for i := range m.Workloads {
		w := &m.Workloads[i]
		inNamespace(w, v.namespace, node.Name)
		objects = append(objects, admission.Object{Kind: w.Kind, Name: w.Name, Pod: policyPod(*w), Ordinal: w.Ordinals.Base != ""})
	}
	collisions := admission.Collisions(objects)
	bad := false
	for i, o := range objects {
		found := append(rules.Check(o), collisions[i]...)
		bad = bad || slices.ContainsFunc(found, policy.Finding.IsError)
		if err := writeFindings(cmd.OutOrStdout(), v.output, m.Workloads[i], found); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	}
	if unread != nil {
		if v.output == "github" {
			annotateErrors(cmd.OutOrStdout(), unread)
		}
		return unread
	}
	if bad {
		return errReported
	}
	return nil
}

// rules returns the rules for the node that the flags describe. Without --resolv-conf
// its file is unknown: the one of this machine would make the result depend on where
// the command runs.
func (v *validator) rules(cmd *cobra.Command) (config.Node, *admission.Rules, error) {
	n, err := v.node.Load()
	if err != nil {
		return n, nil, err
	}
	if _, err := n.Engine(); err != nil { // in the words of the flags
		return n, nil, err
	}
	if !cmd.Flags().Changed("resolv-conf") {
		rules, err := admission.New(n.Node, nil)
		return n, rules, err
	}
	host, _ := n.Host()
	rules, err := admission.New(n.Node, &host)
	return n, rules, err
}

// policyPod returns what of w's pod decides.
func policyPod(w kube.Workload) policy.Pod {
	pod := kube.FromPod(w.Pod)
	pod.Path = w.Path
	return pod
}

// inNamespace puts w into the namespace of the command line, unless it names one. On a
// named node a Pod is a static pod, and gets the node's name into its own.
func inNamespace(w *kube.Workload, namespace, node string) {
	if w.Pod.Namespace == "" {
		w.Pod.Namespace = namespace
	}
	if w.Kind == "Pod" && node != "" {
		w.Pod = kube.StaticPod(w.Pod, node)
		w.Name = w.Pod.Name
	}
}
