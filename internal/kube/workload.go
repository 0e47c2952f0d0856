// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/json"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
)

// Workload is an object that is a pod or makes pods.
type Workload struct {
	Location
	Kind      string
	Namespace string // "" when the manifest leaves it open
	Name      string

	// Pod is the pod, or one like those that the object makes, with the API's
	// defaults. A generated name has its longest form, with an x for each random
	// character.
	Pod *corev1.Pod

	// Numbered are its pods, if their host names end with numbers; Pod is the last.
	Numbered Numbered

	// Path leads from the document to the pod in it: "" for a pod, "spec.template."
	// for most others, with "items[2]." before it in a List.
	Path string

	part *part
}

// LineOf returns the line of the file on which the value at field begins, a path from
// the document, or what is there of the way to it. One goroutine at a time may ask for
// the workloads of a Manifest.
func (w Workload) LineOf(field string) int { return w.part.lineOf(field) }

// Numbered are the host names of pods that differ by a number, as those of a
// StatefulSet: Base-First to Base-Last. Without a Base there are none.
type Numbered struct {
	Base        string
	First, Last int32
}

// lastHost is the longest of the host names.
func (n Numbered) lastHost() string { return fmt.Sprintf("%s-%d", n.Base, n.Last) }

// Scaled returns what the StatefulSet w would be with so many replicas.
func (w Workload) Scaled(replicas int32) Workload {
	w.Numbered.Last = lastOrdinal(w.Numbered.First, replicas)
	w.Pod = w.Pod.DeepCopy()
	w.Pod.Name = w.Numbered.lastHost()
	w.Pod.Spec.Hostname = w.Pod.Name
	return w
}

// workload reads an object that is no list.
func (r *reader) workload(data []byte, h header) {
	read, known := makers[h]
	if !known {
		r.other(data, h)
		return
	}
	w, problems := read(data)
	for _, p := range problems {
		field, hint, err := fieldOf(p)
		r.fail(r.part.number, field, err, hint)
	}
	if len(problems) > 0 {
		return
	}
	w.Location, w.part = Location{File: r.file, Document: r.part.number, Source: r.part.source()}, r.part
	w.Kind = h.Kind
	w.Path = r.item + w.Path
	if w.Pod.Name == "" {
		r.fail(r.part.number, "metadata.name", errors.New("is missing"), "name the object, or give it a generateName")
		return
	}
	for _, m := range []struct{ field, text string }{{"metadata.name", w.Name}, {"metadata.namespace", w.Namespace}} {
		if strings.ContainsFunc(m.text, unicode.IsControl) {
			r.fail(r.part.number, m.field, fmt.Errorf("%q has a control character", m.text), "use lower-case letters, digits, '-' and '.'")
			return
		}
	}
	w.Pod.Namespace = w.Namespace
	SetDefaults(&w.Pod.Spec)
	r.Workloads = append(r.Workloads, w)
}

// other takes note of an object without pods. In the API groups of ours, a kind
// that does not exist is an error; other groups may hold anything.
func (r *reader) other(data []byte, h header) {
	gv, err := schema.ParseGroupVersion(h.APIVersion)
	if err != nil {
		r.fail(r.part.number, "apiVersion", err, "")
		return
	}
	ours := r.groups.IsGroupRegistered(gv.Group) || gv.Group == "extensions"
	if ours && !r.groups.Recognizes(gv.WithKind(h.Kind)) {
		hint := "check the spelling of apiVersion and kind"
		for m := range makers {
			if m.Kind == h.Kind {
				hint = "use apiVersion " + m.APIVersion
			}
		}
		r.fail(r.part.number, "kind", fmt.Errorf("no such kind: %s", h), hint)
		return
	}
	r.Others = append(r.Others, Object{Location{File: r.file, Document: r.part.number, Field: r.item}, h.APIVersion, h.Kind, data})
}

// groups returns the API groups that pods and their workloads are in.
func groups() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // two types of one name in k8s.io/api
		}
	}
	return s
}

// makers holds the kinds that make pods.
var makers = map[header]func([]byte) (Workload, []error){
	{"v1", "Pod"}: decode(func(o *corev1.Pod) Workload {
		return Workload{Namespace: o.Namespace, Name: o.Name, Pod: o}
	}),
	{"v1", "PodTemplate"}: decode(func(o *corev1.PodTemplate) Workload {
		return templated(o.ObjectMeta, o.Template, "template.", generated(o.Name+"-"))
	}),
	{"v1", "ReplicationController"}: decode(func(o *corev1.ReplicationController) Workload {
		if o.Spec.Template == nil {
			o.Spec.Template = &corev1.PodTemplateSpec{}
		}
		return templated(o.ObjectMeta, *o.Spec.Template, "spec.template.", generated(o.Name+"-"))
	}),
	{"apps/v1", "ReplicaSet"}: decode(func(o *appsv1.ReplicaSet) Workload {
		return templated(o.ObjectMeta, o.Spec.Template, "spec.template.", generated(o.Name+"-"))
	}),
	{"apps/v1", "DaemonSet"}: decode(func(o *appsv1.DaemonSet) Workload {
		return templated(o.ObjectMeta, o.Spec.Template, "spec.template.", generated(o.Name+"-"))
	}),
	{"apps/v1", "Deployment"}: decode(func(o *appsv1.Deployment) Workload {
		return templated(o.ObjectMeta, o.Spec.Template, "spec.template.", generated(o.Name+"-"+strings.Repeat("x", maxTemplateHash)+"-"))
	}),
	{"apps/v1", "StatefulSet"}: decode(func(o *appsv1.StatefulSet) Workload {
		n := Numbered{Base: o.Name}
		n.First, n.Last = ordinals(o.Spec)
		w := templated(o.ObjectMeta, o.Spec.Template, "spec.template.", n.lastHost())
		w.Pod.Spec.Hostname, w.Pod.Spec.Subdomain, w.Numbered = w.Pod.Name, o.Spec.ServiceName, n
		return w
	}),
	{"batch/v1", "Job"}: decode(func(o *batchv1.Job) Workload {
		return job(o.ObjectMeta, o.Spec, "spec.template.", o.Name)
	}),
	{"batch/v1", "CronJob"}: decode(func(o *batchv1.CronJob) Workload {
		return job(o.ObjectMeta, o.Spec.JobTemplate.Spec, "spec.jobTemplate.spec.template.", o.Name+"-"+strings.Repeat("0", minuteDigits))
	}),
}

// decode returns a function that reads a T strictly and hands it to workload.
func decode[T any](workload func(*T) Workload) func([]byte) (Workload, []error) {
	return func(data []byte) (Workload, []error) {
		var o T
		if problems := document.DecodeStrict(data, &o); problems != nil {
			return Workload{}, problems
		}
		if m, ok := any(&o).(metav1.Object); ok && m.GetName() == "" && m.GetGenerateName() != "" {
			m.SetName(generated(m.GetGenerateName()))
		}
		return workload(&o), nil
	}
}

func templated(owner metav1.ObjectMeta, t corev1.PodTemplateSpec, path, podName string) Workload {
	pod := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	pod.Name = podName
	if owner.Name == "" {
		pod.Name = ""
	}
	return Workload{Namespace: owner.Namespace, Name: owner.Name, Pod: pod, Path: path}
}

// job returns the pod of a Job with the given name. The pods of an Indexed Job
// have their index in the host name.
func job(owner metav1.ObjectMeta, spec batchv1.JobSpec, path, name string) Workload {
	if spec.CompletionMode == nil || *spec.CompletionMode != batchv1.IndexedCompletion {
		return templated(owner, spec.Template, path, generated(name+"-"))
	}
	n := Numbered{Base: name}
	if spec.Completions != nil && *spec.Completions > 0 {
		n.Last = *spec.Completions - 1
	}
	w := templated(owner, spec.Template, path, generated(n.lastHost()+"-"))
	w.Pod.Spec.Hostname, w.Numbered = n.lastHost(), n
	return w
}

// Parts of the names that controllers generate.
const (
	maxTemplateHash  = 10 // a ReplicaSet's hash is a 32-bit number in decimal, re-spelled
	minuteDigits     = 8  // a CronJob's Jobs carry the minutes since 1970
	randomCharacters = 5  // k8s.io/apiserver/pkg/storage/names
	maxGeneratedBase = 63 - randomCharacters
)

// generated returns the name that the API server makes of a generateName.
func generated(base string) string {
	if len(base) > maxGeneratedBase {
		base = base[:maxGeneratedBase]
	}
	return base + strings.Repeat("x", randomCharacters)
}

// ordinals are those of a StatefulSet's first pod and of its last.
func ordinals(spec appsv1.StatefulSetSpec) (first, last int32) {
	if spec.Ordinals != nil {
		first = spec.Ordinals.Start
	}
	replicas := int32(1) // the API's default
	if spec.Replicas != nil {
		replicas = *spec.Replicas
	}
	return first, lastOrdinal(first, replicas)
}

// lastOrdinal is that of the last of some pods. A StatefulSet that is scaled to nothing
// counts as if it had one. What is beyond 32 bits has as many digits as the last number
// of 32 bits.
func lastOrdinal(first, replicas int32) int32 {
	return int32(min(int64(first)+max(int64(replicas), 1)-1, math.MaxInt32))
}

// fieldOf parts an error of decoding: the field that it is about, what to do, and what
// is wrong.
func fieldOf(err error) (field, hint string, problem error) {
	if f, ok := errors.AsType[json.FieldError](err); ok {
		return f.FieldPath(), "check its spelling and its place", err
	}
	if t, ok := errors.AsType[*document.TypeError](err); ok {
		if strings.HasPrefix(t.Problem, "is a number") && strings.Contains(t.Field, "dnsConfig.options[") {
			hint = `quote the number: value: "2"` // an early draft of the API had numbers
		}
		return t.Field, hint, errors.New(t.Problem)
	}
	return "", "", err
}
