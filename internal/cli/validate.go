// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// severities returns the values of Options.FailOn, the gravest first.
func severities() []string {
	return []string{string(policy.SeverityError), string(policy.SeverityWarning), string(policy.SeverityInfo)}
}

// Options are the values of the command's flags.
type ValidateOptions struct {
	Input  kube.Input
	Output Validation
	FailOn string   // the lowest severity of a finding that fails: one of Severities
	Ignore []string // codes of findings that are left out

	AllowEmpty bool // an input without any object passes
}

// Register adds the flags.
func (o *ValidateOptions) Register(flags *pflag.FlagSet) {
	o.Input.Register(flags)
	usage.FormatFlag(flags, &o.Output.Format,
		"`FORMAT`: text, json (JSON Lines, one for each object), github (annotations for GitHub Actions) or sarif (2.1.0)",
		formatText, formatJSON, formatGitHub, formatSARIF)
	usage.ChoiceFlag(flags, &o.FailOn, "fail-on", "",
		"lowest `SEVERITY` of a finding for exit code 1: error, warning or info", severities()...)
	flags.StringSliceVar(&o.Ignore, "ignore", nil,
		"`CODE` of findings to ignore; repeatable. The annotation "+admission.IgnoreAnnotation+" ignores them in one object")
	flags.BoolVar(&o.AllowEmpty, "allow-empty", false, "exit code 0 for an input without any object")
	flags.BoolVar(&o.Input.Strict, "strict", false,
		"report every unknown field as an error, not only those that resemble a DNS field")
}

// Check validates the options.
func (o *ValidateOptions) Check() error {
	if err := o.Input.Check(); err != nil {
		return err
	}
	for _, code := range o.Ignore {
		if err := admission.CheckCodes(code); err != nil {
			return usage.Errorf("--ignore: %w", err)
		}
	}
	return nil
}

// Run checks the manifests with the rules of a node, and writes the findings, what was passed
// over, and a summary. passed is false if a finding fails, a document cannot be read, or the input
// has no object: a check of nothing is not a success. The error is about writing.
func (o *ValidateOptions) Run(ctx context.Context, rules *admission.Rules, node string,
	stdin io.Reader, stderr io.Writer) (passed bool, err error) {
	o.Output.Verbose = o.FailOn == string(policy.SeverityInfo)
	in, readErr := readInput(o.Input, stdin)
	WriteNotes(stderr, in.Manifest)
	if err := o.Input.CheckPods(in.Manifest); err != nil && readErr == nil && len(in.services) == 0 {
		WriteError(stderr, err)
	}
	isEmpty := len(in.Workloads)+len(in.services)+len(in.Others) == 0 && readErr == nil
	results, err := in.check(ctx, rules, o.Input.Namespace, node, o.Ignore)
	if err != nil {
		return false, err
	}
	groups := grouped(results)
	summary := Summary{Found: map[policy.Severity]int{}, Checked: len(results), Others: in.Others, Notes: len(in.Notes)}
	for _, r := range groups {
		summary.add(r)
	}
	if o.Output.Format != formatJSON { // there each object has a line
		results = groups
	}
	for _, r := range results {
		if err := o.Output.Write(r.Subject, r.Findings); err != nil {
			return false, err
		}
	}
	if err := errors.Join(o.Output.WriteUnreadable(readErr), o.Output.Close()); err != nil {
		return false, err
	}
	if readErr != nil {
		WriteError(stderr, readErr)
		summary.Found[policy.SeverityError] += len(excerpt.Unjoin(readErr))
	}
	summary.HidesInfo = !o.Output.Verbose && o.Output.Format != formatJSON
	summary.Write(stderr)
	grave := severities()[:slices.Index(severities(), o.FailOn)+1]
	fails := slices.ContainsFunc(grave, func(severity string) bool { return summary.Found[policy.Severity(severity)] > 0 })
	return readErr == nil && (!isEmpty || o.AllowEmpty) && !fails, nil
}

func (s *Summary) add(r result) {
	for _, f := range r.Findings {
		s.Found[f.Severity] += 1 + f.More
	}
	s.Ignored += r.Ignored
	s.Skipped = max(s.Skipped, r.skipped)
}

// isStatic reports whether a workload is a static pod, whose controller is a node.
func isStatic(w kube.Workload) bool { return strings.HasPrefix(w.Controller, "Node ") }

// isSystem reports whether a workload belongs to the cluster itself: it is in kube-system, a static pod, or has one of the
// priority classes that Kubernetes reserves for it, as network plugins and storage drivers have.
func isSystem(w kube.Workload) bool {
	return w.Pod.Namespace == metav1.NamespaceSystem || isStatic(w) || strings.HasPrefix(w.Pod.Spec.PriorityClassName, "system-")
}

// forSystem returns the findings in a workload of the cluster itself: there ClusterFirst on the host's network is the
// default of the API, and pods such as etcd and kube-proxy start before there is a cluster DNS.
func forSystem(findings []policy.Finding) []policy.Finding {
	for i, f := range findings {
		if f.Code == policy.CodeHostNetworkDefault {
			findings[i].Severity = policy.SeverityInfo
		}
	}
	return findings
}

// grouped returns the results with equal findings in the pods of one controller as a single finding, at the first
// of these pods: a DaemonSet with one mistake would otherwise have a finding on each node. Findings that follow from the
// template of a controller in the input are left to the controller.
func grouped(results []result) (groups []result) {
	type key struct{ owner, field, message string }
	known := map[key]int{} // index in groups
	controllers := map[string]result{}
	for _, r := range results {
		controllers[r.String()] = r
	}
	for _, r := range results {
		r.Findings = slices.DeleteFunc(slices.Clone(r.Findings), func(f policy.Finding) bool { return inherits(r, f, controllers) })
		if r.owner == "" || r.Kind != admission.KindPod {
			groups = append(groups, r)
			continue
		}
		alone := r
		alone.Findings = nil
		groups = append(groups, alone) // for what it ignores
		for _, f := range r.Findings {
			k := key{r.controller(), strings.TrimPrefix(f.Field, r.path), string(f.Code) + f.Message}
			i, ok := known[k]
			if !ok {
				i = len(groups)
				known[k] = i
				first := result{Subject: r.Subject, Findings: []policy.Finding{f}}
				groups = append(groups, first)
			}
			groups[i].pods++
		}
	}
	return groups
}

// inherits reports whether a controller of r, or the controller of that one, has a finding with the code of f, even one that
// it ignores.
func inherits(r result, f policy.Finding, controllers map[string]result) bool {
	for c, ok := controllers[r.controller()]; ok && c.level() > r.level(); c, ok = controllers[r.controller()] {
		if slices.ContainsFunc(c.all, func(other policy.Finding) bool { return other.Code == f.Code }) {
			return true
		}
		r = c
	}
	return false
}

// level is higher for controllers than for what they create: a CronJob creates Jobs, and these create pods. In manifests, two
// objects may name each other as their controllers.
func (s Subject) level() int {
	switch s.Kind {
	case admission.KindPod:
		return 0
	case "Job", "ReplicaSet":
		return 1
	}
	return 2
}

// String returns the kind and the name, such as "Pod shop/web", or for several pods of a controller their number.
func (s Subject) String() string {
	if s.pods > 1 {
		return fmt.Sprintf("%s: %d pods", s.controller(), s.pods)
	}
	return s.Kind + " " + strings.TrimPrefix(s.Namespace+"/"+s.Name, "/")
}

// controller returns the kind and the name of the controller of s, such as "DaemonSet shop/agent"; "": none.
func (s Subject) controller() string {
	kind, name, found := strings.Cut(s.owner, " ")
	if !found {
		return ""
	}
	return kind + " " + strings.TrimPrefix(s.Namespace+"/"+name, "/")
}

// input is what is checked.
type input struct {
	kube.Manifest // its Services are not among the others

	services []service
}

// service is a Service, and what the rules need of it.
type service struct {
	cluster.Service
	rules admission.Service
}

// readInput reads the manifests and decodes their Services. Errors are joined; the valid objects are
// returned beside them.
func readInput(in kube.Input, stdin io.Reader) (input, error) {
	m, err := in.Read(stdin)
	objects, serviceErr := cluster.DecodeManifest(m, in.Namespace)
	errs := []error{err, serviceErr}
	for _, u := range objects.Unknown {
		if in.Strict {
			errs = append(errs, u.InputError())
		} else {
			m.Unknown = append(m.Unknown, u)
		}
	}
	m.Others = slices.DeleteFunc(m.Others, func(o kube.Object) bool { return o.APIVersion == "v1" && o.Kind == "Service" })
	return input{m, newServices(objects)}, errors.Join(errs...)
}

func newServices(objects cluster.Manifest) (list []service) {
	pods := objects.Pods()
	for _, s := range objects.Services() {
		near := func(w kube.Workload) bool { return w.Namespace == s.Namespace }
		list = append(list, service{s, admission.Service{
			Namespace: s.Namespace, Name: s.Name, File: s.Source.File(), Path: s.Source.Path(), Headless: s.IsHeadless(),
			SelectsNothing: len(s.Spec.Selector) > 0 && !s.HasSlices &&
				slices.ContainsFunc(pods, near) && !slices.ContainsFunc(pods, s.Selects),
			IsExternalName: s.Spec.Type == "ExternalName", ExternalName: s.Spec.ExternalName,
		}})
	}
	return list
}

// result are the findings about an object.
type result struct {
	Subject
	Findings []policy.Finding
	Ignored  int              // findings that the options or an annotation leave out
	all      []policy.Finding // with the ignored ones
	skipped  int              // rules that need what is not known of the node
}

// check returns a result for each workload and each Service, in the order of the manifests.
// namespace is that of workloads without one; with the name of a node, a Pod is a static pod of
// that node. Findings with a code in ignore are left out.
func (in *input) check(ctx context.Context, rules *admission.Rules, namespace, node string, ignore []string) ([]result, error) {
	var workloads []kube.Workload
	var objects []admission.Object
	for _, w := range in.Workloads {
		if w.Ended {
			continue
		}
		w = w.OnNode(namespace, node)
		workloads, objects = append(workloads, w), append(objects, AdmissionObject(w, node))
	}
	var services []admission.Service
	for _, s := range in.services {
		services = append(services, s.rules)
	}
	collisions, unresolved := admission.Collisions(objects), admission.CheckServices(objects, services)
	var results []result
	for i, w := range workloads {
		findings, err := rules.Check(ctx, objects[i])
		if err != nil {
			return nil, err
		}
		if isSystem(w) {
			findings = forSystem(findings)
		}
		owned := w.Annotations
		if w.Custom {
			owned = nil // its controller may copy them to the pods
		}
		subject := Subject{Kind: w.Kind, Namespace: w.Pod.Namespace, Name: w.Name, At: w.At, path: w.Path}
		if !isStatic(w) {
			subject.owner = w.Controller
		}
		r := newResult(
			subject,
			slices.Concat(w.WithFields(findings), collisions[i], unresolved[i],
				admission.CheckAnnotations(objects[i], owned, w.Pod.Annotations)),
			ignore, w.Annotations, w.Pod.Annotations)
		r.skipped = rules.Skipped(objects[i])
		results = append(results, r)
	}
	for _, s := range in.services {
		results = append(results, newResult(
			Subject{Kind: s.Source.Kind, Namespace: s.Namespace, Name: s.Name, At: s.Source.At},
			admission.CheckService(s.rules), ignore, s.Annotations))
	}
	return results, nil
}

// newResult leaves out the findings whose code is in ignore, or in one of the annotations.
func newResult(s Subject, findings []policy.Finding, ignore []string, annotations ...map[string]string) result {
	rest := slices.DeleteFunc(admission.WithoutIgnored(findings, annotations...), func(f policy.Finding) bool {
		return slices.Contains(ignore, string(f.Code))
	})
	return result{Subject: s, Findings: rest, Ignored: len(findings) - len(rest), all: findings}
}

// Object converts a workload. With a node, a Pod is a static pod of that node.
func AdmissionObject(w kube.Workload, node string) admission.Object {
	o := admission.Object{
		Kind: w.Kind, Name: w.Name, File: w.File(), GeneratedName: w.GeneratedName, GenerateName: w.GenerateName,
		Pod: w.PolicyPod(), Ordinal: w.Ordinals.Base != "",
		ManualSelector: w.ManualSelector, TemplateHostname: w.TemplateHostname,
	}
	for _, a := range w.Pod.Spec.HostAliases {
		o.HostAliases = append(o.HostAliases, admission.HostAlias{IP: a.IP, Hostnames: a.Hostnames})
	}
	if w.Kind == admission.KindPod {
		o.Node = node
	}
	return o
}
