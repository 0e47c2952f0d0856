// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

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
func readInput(ctx context.Context, in kube.Input, stdin io.Reader) (input, error) {
	m, err := in.Read(ctx, stdin)
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
