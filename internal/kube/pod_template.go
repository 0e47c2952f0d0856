// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// customResource is an object of a kind that this package does not know.
type customResource struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
}

// customWorkloads records the pod templates in an object of an unknown kind, such as
// spec.template of an Argo Rollout or those of a JobSet, and reports whether it has recorded one. It
// notes pods that it cannot read.
func (p *parser) customWorkloads(data []byte) bool {
	before := len(p.Workloads)
	var content map[string]any
	var o customResource
	if json.Unmarshal(data, &content) != nil {
		return false
	}
	invalid := document.Decode(data, &o)
	templates := findTemplates(content, "")
	if path, ok := specFields[o.GroupVersionKind().GroupKind()]; ok {
		templates = fieldsTemplate(content, path)
	}
	for _, t := range templates {
		w, err := customWorkload(&o, t)
		if invalid != nil || err != nil || o.Metadata.Name == "" {
			p.note(t.path, fmt.Sprintf("the pods of a %s are not read", o.Kind), "check a Pod or Deployment with the same template")
			continue
		}
		if p.accept(origin{p.file, p.doc, p.item + w.Path}, t.unknown) {
			p.addWorkload(w)
		}
	}
	return len(p.Workloads) > before
}

// specFields are the paths of the DNS settings of pods in objects that have no pod template.
var specFields = map[schema.GroupKind]string{
	{Group: "argoproj.io", Kind: "Workflow"}:               "spec",
	{Group: "argoproj.io", Kind: "WorkflowTemplate"}:       "spec",
	{Group: "argoproj.io", Kind: "CronWorkflow"}:           "spec.workflowSpec",
	{Group: "tekton.dev", Kind: "TaskRun"}:                 "spec.podTemplate",
	{Group: "tekton.dev", Kind: "PipelineRun"}:             "spec.taskRunTemplate.podTemplate",
	{Group: "kubevirt.io", Kind: "VirtualMachine"}:         "spec.template.spec",
	{Group: "monitoring.coreos.com", Kind: "Prometheus"}:   "spec",
	{Group: "monitoring.coreos.com", Kind: "Alertmanager"}: "spec",
}

// fieldsTemplate returns the DNS settings at a path as a pod template, or nil if there are none. Host names are left
// out: the controllers choose them.
func fieldsTemplate(content map[string]any, path string) []*podTemplate {
	for step := range strings.SplitSeq(path, ".") {
		content, _ = content[step].(map[string]any)
	}
	settings := map[string]any{}
	for _, name := range []string{"dnsPolicy", "dnsConfig", "hostNetwork", "hostAliases"} {
		if value := content[name]; value != nil {
			settings[name] = value
		}
	}
	if len(settings) == 0 {
		return nil
	}
	return []*podTemplate{{path: path, value: map[string]any{"spec": settings}, isSpec: true}}
}

// podTemplate is a pod template in an object of an unknown kind.
type podTemplate struct {
	path    string         // such as "spec.template"
	value   map[string]any // nil: the path is too long
	isSpec  bool           // path is that of the spec of the pod
	unknown []error        // its unknown fields, set by customWorkload
}

// customWorkload returns the workload of a pod template. Its controller is not known:
// the names of its pods are assumed to end like those of a ReplicaSet or, for a Rollout, like
// those of a Deployment.
func customWorkload(o *customResource, t *podTemplate) (w Workload, err error) {
	js, err := json.Marshal(t.value)
	if err != nil {
		return w, err
	}
	var pod corev1.PodTemplateSpec
	t.unknown = document.DecodeStrict(js, &pod)
	for _, problem := range t.unknown {
		if _, _, unknown := unknownField(problem); !unknown {
			return w, problem
		}
	}
	if t.path == "" || t.value == nil || len(pod.Spec.Containers) == 0 && !t.isSpec { // only some fields of a pod
		return w, errors.New("not a pod template")
	}
	podName := generatedName(o.Metadata.Name + "-")
	if t.isSpec {
		podName = "pod"
	}
	if o.Kind == "Rollout" {
		podName = deploymentPod(o.Metadata.Name)
	}
	w = withTemplate(o.Metadata, pod, t.path+".", podName)
	w.Kind, w.Annotations, w.Custom = o.Kind, o.Metadata.Annotations, true
	if t.isSpec {
		w.specPath = t.path
	}
	return w, nil
}

// WithFields returns findings about w's pod with the fields of the document: an object without a pod template has
// those of the pod's spec at another path.
func (w Workload) WithFields(findings []policy.Finding) []policy.Finding {
	for i := range findings {
		if rest, ok := strings.CutPrefix(findings[i].Field, w.Path+"spec."); ok && w.specPath != "" {
			findings[i].Field = strings.TrimSuffix(w.Path, w.specPath+".") + w.specPath + "." + rest
		}
	}
	return findings
}

// maxTemplatePath is the size in bytes of the longest path of a pod template that is read. The
// path is part of the places of all findings, and nested objects with long keys could make each of
// thousands of paths as long as the document. Argo, JobSet and Knative have less than 60.
const maxTemplatePath = 1 << 10

// findTemplates returns the pod templates in a value, in the order of their paths. A value whose
// path is too long is returned as a podTemplate without a value.
func findTemplates(value any, path string) (found []*podTemplate) {
	if len(path) > maxTemplatePath {
		switch value.(type) {
		case map[string]any, []any:
			return []*podTemplate{{path: excerpt.Text(path, excerpt.MaxMessage)}}
		}
		return nil
	}
	switch value := value.(type) {
	case map[string]any:
		if isPodTemplate(value) {
			return []*podTemplate{{path: path, value: value}}
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			found = append(found, findTemplates(value[key], strings.TrimPrefix(path+"."+key, "."))...)
		}
	case []any:
		for i, v := range value {
			found = append(found, findTemplates(v, fmt.Sprintf("%s[%d]", path, i))...)
		}
	}
	return found
}

// isPodTemplate reports whether value has a spec with fields of a pod: the ones about DNS, or
// containers with a name or an image.
func isPodTemplate(value map[string]any) bool {
	spec, _ := value["spec"].(map[string]any)
	if spec["dnsPolicy"] != nil || spec["dnsConfig"] != nil {
		return true
	}
	containers, _ := spec["containers"].([]any)
	if len(containers) == 0 {
		return false
	}
	container, _ := containers[0].(map[string]any)
	_, named := container["name"].(string)
	_, image := container["image"].(string)
	return named || image
}

// SelectedBy reports whether a Service with this selector selects w's pod, or the one with an
// ordinal if w has Ordinals. Controllers add labels to the pods that they create. A label
// whose value only a cluster knows, such as pod-template-hash, is assumed to match if another
// one does: NXDOMAIN would be wrong for sure.
func (w Workload) SelectedBy(selector map[string]string, ordinal int64) bool {
	added, assigned := w.controllerLabels(ordinal)
	matched := false
	for key, value := range selector {
		got, ok := added[key]
		if !ok {
			got, ok = w.Pod.Labels[key]
		}
		switch {
		case ok && got == value:
			matched = true
		case ok || !w.Custom && !slices.Contains(assigned, key):
			return false
		}
	}
	return matched
}

// controllerLabels returns the labels that the controller of w adds to a pod, and the keys of
// those whose values only a cluster knows.
func (w Workload) controllerLabels(ordinal int64) (added map[string]string, assigned []string) {
	switch w.Kind {
	case "Deployment":
		return nil, []string{appsv1.DefaultDeploymentUniqueLabelKey}
	case "DaemonSet":
		return nil, []string{appsv1.ControllerRevisionHashLabelKey, "pod-template-generation"}
	case "StatefulSet":
		n := strconv.FormatInt(ordinal, 10)
		added = map[string]string{appsv1.StatefulSetPodNameLabel: w.Ordinals.hostname(ordinal), appsv1.PodIndexLabel: n}
		return added, []string{appsv1.ControllerRevisionHashLabelKey}
	case "Job", "CronJob":
		added, assigned = map[string]string{}, []string{batchv1.ControllerUidLabel, legacyControllerUID}
		if w.Kind == "Job" && !w.GeneratedName {
			added[batchv1.JobNameLabel], added[legacyJobName] = w.Name, w.Name
		} else {
			assigned = append(assigned, batchv1.JobNameLabel, legacyJobName)
		}
		if w.Ordinals.Base != "" {
			added[batchv1.JobCompletionIndexAnnotation] = strconv.FormatInt(ordinal, 10)
		}
	}
	return added, assigned
}

// The labels of Jobs without a prefix, which the Job controller still adds.
const (
	legacyJobName       = "job-name"
	legacyControllerUID = "controller-uid"
)

// WithOrdinal returns w with the pod of an ordinal instead of the last one. ok is false if
// there is no such pod.
func (w Workload) WithOrdinal(ordinal int64) (_ Workload, ok bool) {
	n := w.Ordinals
	if n.Base == "" || ordinal < int64(n.First) || ordinal > int64(n.Last) {
		return w, false
	}
	w.Pod = w.Pod.DeepCopy()
	w.Pod.Spec.Hostname = n.hostname(ordinal)
	w.Pod.Name = w.Pod.Spec.Hostname
	if w.Kind != "StatefulSet" {
		w.Pod.Name = generatedName(w.Pod.Spec.Hostname + "-")
	}
	return w, true
}
