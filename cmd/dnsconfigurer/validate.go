// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/workload"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/zonesync"
	"github.com/dnsconfigurer/dnsconfigurer/internal/multierr"
	"github.com/dnsconfigurer/dnsconfigurer/internal/output"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

func validateCommand() *cobra.Command {
	v := validateFlags{}
	cmd := &cobra.Command{
		Use:   "validate FILE|DIR|-...",
		Short: "Check the DNS configuration and the host names of pods before they are applied",
		Long: `Check the DNS configuration and the host names of each Pod and each template
(Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Job, CronJob,
PodTemplate, List) in YAML or JSON: values that the API server or the node would refuse,
that the node would truncate, and that no C library supports. So are the pod templates of
custom resources, such as a Rollout or a JobSet. Services are checked, too, and that pods
with a subdomain have one. Other objects are ignored.

The result does not depend on this machine: the host's resolv.conf is only used if
--resolv-conf is set. Exit code 1: there is an error, or a document cannot be read; warnings
do not count unless --fail-on says so. docs/admission.md lists the rules and shows the use
in a pipeline.`,
		Example: `  dnsconfigurer validate -R deploy/ -n shop
  dnsconfigurer validate examples/trouble/ -o github --cluster-domain corp.example
  dnsconfigurer validate -R deploy/ --fail-on warning --ignore musl-search-line -o sarif
  helm template chart/ -n shop | dnsconfigurer validate - -n shop`,
		RunE: func(cmd *cobra.Command, args []string) error { return v.run(cmd, args) },
	}
	flags := cmd.Flags()
	v.manifests.register(flags)
	formatFlag(cmd, &v.output,
		"`FORMAT`: text, json (JSON Lines, one for each object), github (annotations for GitHub Actions) or sarif (2.1.0)",
		output.ValidateFormats...)
	flags.StringVar(&v.failOn, "fail-on", string(policy.SeverityError),
		"lowest `SEVERITY` of a finding for exit code 1: error, warning or info")
	flags.StringSliceVar(&v.ignore, "ignore", nil,
		"`CODE` of findings to ignore; repeatable. The annotation "+admission.IgnoreAnnotation+" ignores them in one object")
	flags.BoolVar(&v.verbose, "verbose", false, "also print findings of severity info; JSON always has them")
	v.node.RegisterWithoutHost(flags)
	completeFlag(cmd, "fail-on", severities...)
	return cmd
}

type validateFlags struct {
	manifests manifestFlags
	output    string
	failOn    string
	ignore    []string
	verbose   bool
	node      config.NodeFlags
}

// severities are the values of --fail-on, the gravest first.
var severities = []string{string(policy.SeverityError), string(policy.SeverityWarning), string(policy.SeverityInfo)}

func (v *validateFlags) run(cmd *cobra.Command, args []string) error {
	if err := cmp.Or(checkOutput(v.output, output.ValidateFormats...), v.manifests.check(args)); err != nil {
		return err
	}
	if !slices.Contains(severities, v.failOn) {
		return usageError{fmt.Errorf("--fail-on %q: want %s", v.failOn, strings.Join(severities, ", "))}
	}
	node, err := v.node.Load()
	if err != nil {
		return err
	}
	rules, err := v.rules(cmd, node)
	if err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	output.WriteFindings(stderr, node.Findings)

	m, readErr := v.manifests.Read(cmd.InOrStdin())
	services, err := v.services(&m)
	readErr = errors.Join(readErr, err)
	output.WriteNotes(stderr, m)
	if err := v.manifests.CheckPods(m); err != nil && readErr == nil && len(services) == 0 {
		output.WriteError(stderr, err)
	}
	out := output.Validation{
		Stdout: cmd.OutOrStdout(), Format: v.output, Color: isTerminal(cmd.OutOrStdout()), Verbose: v.verbose, Version: version(),
	}
	summary, err := v.check(cmd.Context(), m, services, rules, node.Name, &out)
	if err != nil {
		return err
	}
	if err := errors.Join(out.WriteUnreadable(readErr), out.Close()); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	if readErr != nil {
		output.WriteError(stderr, readErr)
		summary.Unreadable = len(multierr.Unjoin(readErr))
	}
	summary.Write(stderr)
	if readErr != nil || v.fails(summary) {
		return errReported
	}
	return nil
}

// services decodes the Services of m. The error joins those of invalid objects.
func (v *validateFlags) services(m *kube.Manifest) ([]manifestService, error) {
	objects, err := zonesync.DecodeManifest(*m, v.manifests.namespace)
	errs := []error{err}
	for _, u := range objects.Unknown {
		if v.manifests.Strict {
			errs = append(errs, u.InputError())
		} else {
			m.Unknown = append(m.Unknown, u)
		}
	}
	m.Others = slices.DeleteFunc(m.Others, func(o kube.Object) bool { return o.APIVersion == "v1" && o.Kind == "Service" })
	var list []manifestService
	for _, s := range objects.Services() {
		near := func(w kube.Workload) bool { return w.Namespace == s.Namespace }
		list = append(list, manifestService{s, admission.Service{
			Namespace: s.Namespace, Name: s.Name, Path: s.Source.Path(), Headless: s.IsHeadless(),
			SelectsNothing: len(s.Spec.Selector) > 0 && !s.HasSlices &&
				slices.ContainsFunc(objects.Pods(), near) && !slices.ContainsFunc(objects.Pods(), s.Selects),
			IsExternalName: s.Spec.Type == "ExternalName", ExternalName: s.Spec.ExternalName,
		}})
	}
	return list, errors.Join(errs...)
}

// manifestService is a Service, and what the rules need of it.
type manifestService struct {
	zonesync.Service
	rules admission.Service
}

// check checks the objects of m, writes the findings to out and counts them.
func (v *validateFlags) check(ctx context.Context, m kube.Manifest, services []manifestService,
	rules *admission.Rules, node string, out *output.Validation) (output.Summary, error) {
	objects := v.objects(m.Workloads, node)
	var checked []admission.Service
	for _, s := range services {
		checked = append(checked, s.rules)
	}
	collisions, unresolved := admission.Collisions(objects), admission.CheckServices(objects, checked)
	summary := output.Summary{Checked: len(objects) + len(services), Others: m.Others,
		Notes: len(m.Notes), Found: map[policy.Severity]int{}}
	for i, o := range objects {
		findings, err := rules.Check(ctx, o)
		if err != nil {
			return summary, err
		}
		w := m.Workloads[i]
		subject := output.Subject{Kind: w.Kind, Namespace: w.Pod.Namespace, Name: w.Name, At: w.At}
		if err := v.report(out, &summary, subject, slices.Concat(findings, collisions[i], unresolved[i]),
			w.Annotations, w.Pod.Annotations); err != nil {
			return summary, err
		}
	}
	for _, s := range services {
		subject := output.Subject{Kind: s.Source.Kind, Namespace: s.Namespace, Name: s.Name, At: s.Source.At}
		if err := v.report(out, &summary, subject, admission.CheckService(s.rules), s.Annotations); err != nil {
			return summary, err
		}
	}
	return summary, nil
}

// report writes the findings about an object with these annotations, and counts them.
func (v *validateFlags) report(out *output.Validation, summary *output.Summary, s output.Subject,
	findings []policy.Finding, annotations ...map[string]string) error {
	found, ignored := v.withoutIgnored(findings, annotations)
	for _, f := range found {
		summary.Found[f.Severity] += 1 + f.More
	}
	summary.Ignored += ignored
	if err := out.Write(s, found); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// withoutIgnored returns the findings that neither --ignore nor one of the annotations
// ignores, and the number of the others.
func (v *validateFlags) withoutIgnored(findings []policy.Finding, annotations []map[string]string) (rest []policy.Finding, ignored int) {
	for _, f := range admission.WithoutIgnored(findings, annotations...) {
		if !slices.Contains(v.ignore, string(f.Code)) {
			rest = append(rest, f)
		}
	}
	return rest, len(findings) - len(rest)
}

// fails reports whether there is a finding as grave as --fail-on.
func (v *validateFlags) fails(s output.Summary) bool {
	return slices.ContainsFunc(severities[:slices.Index(severities, v.failOn)+1], func(severity string) bool {
		return s.Found[policy.Severity(severity)] > 0
	})
}

// objects returns the objects to check, and sets the namespace and the node of workloads.
func (v *validateFlags) objects(workloads []kube.Workload, node string) []admission.Object {
	objects := make([]admission.Object, len(workloads))
	for i, w := range workloads {
		workloads[i] = w.OnNode(v.manifests.namespace, node)
		objects[i] = workload.Object(workloads[i], node)
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
