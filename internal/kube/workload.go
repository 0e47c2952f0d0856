// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/json"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Workload is a pod or an object with a pod template.
type Workload struct {
	origin
	Kind      string
	Namespace string // "" if the manifest has none
	Name      string

	// Custom is set for a kind whose controller is not known. It may give the pods other names
	// and further labels.
	Custom bool

	Annotations map[string]string // of the object

	Controller string // kind and name of the object that created this one, such as "DaemonSet agent"; "": none
	Ended      bool   // a live object that runs no pod any more; see hasEnded

	// GeneratedName is set if the manifest has metadata.generateName instead of a name.
	GeneratedName bool

	// GenerateName is metadata.generateName; there may be a name beside it.
	GenerateName string

	// ManualSelector is set if a Job has a selector of its own.
	ManualSelector bool

	// TemplateHostname is spec.hostname of the template of an Indexed Job, whose pods get
	// another one.
	TemplateHostname string

	// Pod is the pod, or an example of the pods of the template, with the API's defaults.
	// A generated name has its maximum length, with an x for each random character.
	Pod *corev1.Pod

	// Ordinals are set if the pods' host names end with ordinals; Pod is the last pod.
	Ordinals Ordinals

	// Path is the path of the pod in the document: "" for a pod, "spec.template." for
	// most others, with "items[2]." before it in a List.
	Path string

	specPath string // of the pod's spec in the object, if that has no pod template; see specFields
}

// Ordinals describes host names that differ by an ordinal, such as those of a
// StatefulSet: Base-First to Base-Last. The zero value means that there are none.
type Ordinals struct {
	Base        string
	First, Last int32
}

// lastHostname returns the longest of the host names.
func (o Ordinals) lastHostname() string { return o.hostname(int64(o.Last)) }

// hostname returns the host name with an ordinal.
func (o Ordinals) hostname(ordinal int64) string { return fmt.Sprintf("%s-%d", o.Base, ordinal) }

// OnNode returns w in a namespace, unless the manifest has one. If node is not empty, a Pod
// becomes the static pod of that node, unless it is a live pod, as kubectl get prints it.
func (w Workload) OnNode(namespace, node string) Workload {
	w.Namespace = cmp.Or(w.Namespace, namespace)
	pod := *w.Pod
	pod.Namespace = w.Namespace
	w.Pod = &pod
	isLive := pod.UID != "" || len(pod.OwnerReferences) > 0 || pod.Spec.NodeName != "" || pod.Status.Phase != ""
	if w.Kind == "Pod" && node != "" && !isLive {
		w.Pod = StaticPod(w.Pod, node)
		w.Name = w.Pod.Name
	}
	return w
}

// PolicyPod returns FromPod for w's pod, with its path in the manifest.
func (w Workload) PolicyPod() policy.Pod {
	pod := FromPod(w.Pod)
	pod.Path = w.Path
	return pod
}

// workload parses an object that is not a list.
func (p *parser) workload(data []byte, t objectType) {
	decode, known := workloadDecoders[t]
	if !known {
		p.other(data, t)
		return
	}
	w, problems := decode(data)
	if p.accept(p.origin(), problems) {
		w.Kind = t.Kind
		p.addWorkload(w)
	}
}

// accept records the problems of decoding an object, and reports whether none is an error.
func (p *parser) accept(object origin, problems []error) bool {
	errs, ignored := object.sortProblems(problems)
	p.Unknown = append(p.Unknown, ignored...)
	p.errs = append(p.errs, errs...)
	return len(errs) == 0
}

// addWorkload completes w and records it.
func (p *parser) addWorkload(w Workload) {
	w.origin = p.origin()
	w.Path = p.item + w.Path
	if w.Pod.Name == "" {
		p.fail("metadata.name", errors.New("is missing"), "set metadata.name or metadata.generateName")
		return
	}
	for _, m := range []struct{ field, text string }{{"metadata.name", w.Name}, {"metadata.namespace", w.Namespace}} {
		if strings.ContainsFunc(m.text, unicode.IsControl) {
			p.fail(m.field, fmt.Errorf("%q contains a control character", m.text), "use lower-case letters, digits, '-' and '.'")
			return
		}
	}
	w.Pod.Namespace = w.Namespace
	SetDefaults(&w.Pod.Spec)
	p.Workloads = append(p.Workloads, w)
}

// other records an object without pods. An unknown kind is an error in the API groups of
// the workloads only.
func (p *parser) other(data []byte, t objectType) {
	gv, err := schema.ParseGroupVersion(t.APIVersion)
	if err != nil {
		p.fail("apiVersion", err, "")
		return
	}
	checked := p.apiGroups.IsGroupRegistered(gv.Group) || gv.Group == "extensions"
	if checked && !p.apiGroups.Recognizes(gv.WithKind(t.Kind)) {
		hint := "check the spelling of apiVersion and kind"
		for known := range workloadDecoders {
			if known.Kind == t.Kind {
				hint = "use apiVersion " + known.APIVersion
			}
		}
		p.fail("kind", fmt.Errorf("unknown kind %q", t), hint)
		return
	}
	if !checked && p.customWorkloads(data) {
		return
	}
	p.Others = append(p.Others, Object{t.APIVersion, t.Kind, p.origin(), bytes.Clone(data)})
}

// workloadGroups returns the API groups of pods and workloads.
func workloadGroups() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // duplicate types in k8s.io/api
		}
	}
	return s
}

// workloadDecoders holds the decoders of all kinds with pods.
var workloadDecoders = map[objectType]func([]byte) (Workload, []error){
	{"v1", "Pod"}: decoder(func(o *corev1.Pod) Workload {
		return Workload{Namespace: o.Namespace, Name: o.Name, Pod: o}
	}),
	{"v1", "PodTemplate"}: decoder(func(o *corev1.PodTemplate) Workload {
		return withTemplate(o.ObjectMeta, o.Template, "template.", generatedName(o.Name+"-"))
	}),
	{"v1", "ReplicationController"}: decoder(func(o *corev1.ReplicationController) Workload {
		if o.Spec.Template == nil {
			o.Spec.Template = &corev1.PodTemplateSpec{}
		}
		return withTemplate(o.ObjectMeta, *o.Spec.Template, "spec.template.", generatedName(o.Name+"-"))
	}),
	{"apps/v1", "ReplicaSet"}: decoder(func(o *appsv1.ReplicaSet) Workload {
		return withTemplate(o.ObjectMeta, o.Spec.Template, "spec.template.", generatedName(o.Name+"-"))
	}),
	{"apps/v1", "DaemonSet"}: decoder(func(o *appsv1.DaemonSet) Workload {
		return withTemplate(o.ObjectMeta, o.Spec.Template, "spec.template.", generatedName(o.Name+"-"))
	}),
	{"apps/v1", "Deployment"}: decoder(func(o *appsv1.Deployment) Workload {
		return withTemplate(o.ObjectMeta, o.Spec.Template, "spec.template.", deploymentPod(o.Name))
	}),
	{"apps/v1", "StatefulSet"}: decoder(func(o *appsv1.StatefulSet) Workload {
		first := int32(0)
		if o.Spec.Ordinals != nil {
			first = o.Spec.Ordinals.Start
		}
		n := Ordinals{o.Name, first, lastOrdinal(first, ptr.Deref(o.Spec.Replicas, 1))} // the API's default
		w := withTemplate(o.ObjectMeta, o.Spec.Template, "spec.template.", n.lastHostname())
		w.Pod.Spec.Hostname, w.Pod.Spec.Subdomain, w.Ordinals = w.Pod.Name, o.Spec.ServiceName, n
		return w
	}),
	{"batch/v1", "Job"}: decoder(func(o *batchv1.Job) Workload {
		return jobWorkload(o.ObjectMeta, o.Spec, "spec.template.", o.Name)
	}),
	{"batch/v1", "CronJob"}: decoder(func(o *batchv1.CronJob) Workload {
		return jobWorkload(o.ObjectMeta, o.Spec.JobTemplate.Spec, "spec.jobTemplate.spec.template.",
			o.Name+"-"+strings.Repeat("0", minuteDigits))
	}),
}

// decoder returns a function that decodes a T strictly and converts it with workload. The
// problems beside a Workload are unknown fields that do not affect DNS.
func decoder[T any](workload func(*T) Workload) func([]byte) (Workload, []error) {
	return func(data []byte) (Workload, []error) {
		var o T
		problems := document.DecodeStrict(data, &o)
		if slices.ContainsFunc(problems, isInvalid) {
			return Workload{}, problems
		}
		m, ok := any(&o).(metav1.Object)
		generated := ok && m.GetName() == "" && m.GetGenerateName() != ""
		if generated {
			m.SetName(generatedName(m.GetGenerateName()))
		}
		w := workload(&o)
		w.GeneratedName = generated
		if ok {
			m.SetManagedFields(nil) // a tenth of the memory of live pods
			w.Annotations, w.GenerateName = m.GetAnnotations(), m.GetGenerateName()
			kind, name := Controller(m)
			w.Controller, w.Ended = strings.TrimSpace(kind+" "+name), hasEnded(&o)
		}
		return w, problems
	}
}

// hasEnded reports whether a live object runs no pod any more: a pod or a Job that has ended, or the ReplicaSet of an earlier
// revision of a Deployment.
func hasEnded(object any) bool {
	switch o := object.(type) {
	case *corev1.Pod:
		return o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed
	case *appsv1.ReplicaSet:
		return metav1.GetControllerOfNoCopy(o) != nil && ptr.Deref(o.Spec.Replicas, 1) == 0
	case *batchv1.Job:
		return slices.ContainsFunc(o.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed)
		})
	}
	return false
}

func withTemplate(owner metav1.ObjectMeta, t corev1.PodTemplateSpec, path, podName string) Workload {
	pod := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	pod.Name = podName
	if owner.Name == "" {
		pod.Name = ""
	}
	return Workload{Namespace: owner.Namespace, Name: owner.Name, Pod: pod, Path: path}
}

// jobWorkload returns the workload of a Job named name. The pods of an Indexed Job have
// their index in the host name; one without completions has no pods.
func jobWorkload(owner metav1.ObjectMeta, spec batchv1.JobSpec, path, name string) Workload {
	var n Ordinals
	base := name
	completions := ptr.Deref(spec.Completions, 1) // the API server requires a number
	if ptr.Deref(spec.CompletionMode, "") == batchv1.IndexedCompletion && completions > 0 {
		n = Ordinals{Base: name, Last: completions - 1}
		base = n.lastHostname()
	}
	w := withTemplate(owner, spec.Template, path, generatedName(base+"-"))
	w.ManualSelector = ptr.Deref(spec.ManualSelector, false)
	if n.Base != "" {
		w.TemplateHostname = w.Pod.Spec.Hostname
		w.Pod.Spec.Hostname, w.Ordinals = n.lastHostname(), n
	}
	return w
}

// Parts of the names that controllers generate.
const (
	maxTemplateHash  = 10 // a ReplicaSet's hash is a 32-bit number in decimal with other digits
	minuteDigits     = 8  // a CronJob appends the minutes since 1970
	randomCharacters = 5  // k8s.io/apiserver/pkg/storage/names
	maxGeneratedBase = 63 - randomCharacters
)

// generatedName returns the name that the API server makes of a generateName.
func generatedName(base string) string {
	if len(base) > maxGeneratedBase {
		base = base[:maxGeneratedBase]
	}
	return base + strings.Repeat("x", randomCharacters)
}

// deploymentPod returns the name of a pod of a Deployment.
func deploymentPod(name string) string {
	return generatedName(name + "-" + strings.Repeat("x", maxTemplateHash) + "-")
}

// lastOrdinal returns the ordinal of the last replica. A StatefulSet scaled to zero counts
// as one of a single replica. The result is capped at the highest ordinal of 32 bits.
func lastOrdinal(first, replicas int32) int32 {
	return int32(min(int64(first)+max(int64(replicas), 1)-1, math.MaxInt32))
}

// fieldOf splits a decoding error into the field, a hint and the problem.
func fieldOf(err error) (field, hint string, problem error) {
	if f, ok := errors.AsType[json.FieldError](err); ok {
		problem, _, _ := strings.Cut(err.Error(), " \"") // without the path: "unknown field", "duplicate field"
		return f.FieldPath(), "check its spelling and its place", errors.New(problem)
	}
	if t, ok := errors.AsType[*document.TypeError](err); ok {
		if strings.HasPrefix(t.Problem, "is a number") && strings.Contains(t.Field, "dnsConfig.options[") {
			hint = `quote the number: value: "2"` // an early draft of the API had numbers
		}
		return t.Field, hint, errors.New(t.Problem)
	}
	return "", "", err
}
