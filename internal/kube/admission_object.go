// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
)

// ParseAdmissionObject parses a pod or a workload in the form that the API server sends
// to admission: JSON, possibly with fields of a newer version. Only the fields that
// affect DNS and host names are decoded, so that the others may be large or have another
// type. known is false for kinds without pods.
func ParseAdmissionObject(apiVersion, kind string, js []byte) (w Workload, known bool, err error) {
	decode, known := workloadDecoders[objectType{apiVersion, kind}]
	if !known {
		return Workload{}, false, nil
	}
	var o admissionObject
	if err := document.DecodeLarge(js, &o); err != nil {
		return Workload{}, true, err
	}
	// dnsConfig may have megabytes, and is decoded completely: do not decode it twice.
	pod := o.pod(kind)
	config := pod.DNSConfig
	pod.DNSConfig = nil
	reduced, err := json.Marshal(o)
	if err != nil {
		return Workload{}, true, err
	}
	w, problems := decode(reduced)
	if len(problems) > 0 {
		return Workload{}, true, errors.Join(problems...)
	}
	w.Kind, w.Pod.Namespace, w.Pod.Spec.DNSConfig = kind, w.Namespace, (*corev1.PodDNSConfig)(config)
	SetDefaults(&w.Pod.Spec)
	return w, true, nil
}

// admissionObject has the decoded fields of all kinds. Encoded again it is a small object
// of its original kind.
type admissionObject struct {
	Metadata admissionMeta      `json:"metadata,omitzero"`
	Spec     admissionSpec      `json:"spec,omitzero"`
	Template *admissionTemplate `json:"template,omitempty"` // of a PodTemplate
}

// pod returns the spec of the pod or the pod template of a kind.
func (o *admissionObject) pod(kind string) *admissionPod {
	t := o.Spec.Template
	switch {
	case kind == "Pod":
		return &o.Spec.admissionPod
	case kind == "PodTemplate":
		t = o.Template
	case kind == "CronJob" && o.Spec.JobTemplate != nil:
		t = o.Spec.JobTemplate.Spec.Template
	}
	if t == nil {
		return &admissionPod{}
	}
	return &t.Spec
}

type admissionMeta struct {
	Name         string         `json:"name,omitempty"`
	GenerateName string         `json:"generateName,omitempty"`
	Namespace    string         `json:"namespace,omitempty"`
	Annotations  ownAnnotations `json:"annotations,omitzero"` // an empty one stays
}

type admissionTemplate struct {
	Metadata admissionMeta `json:"metadata,omitzero"`
	Spec     admissionPod  `json:"spec,omitzero"`
}

type admissionSpec struct {
	admissionPod `json:",inline"`

	Template    *admissionTemplate    `json:"template,omitempty"`
	JobTemplate *admissionJobTemplate `json:"jobTemplate,omitempty"`

	// Fields of a StatefulSet.
	Replicas    *int32                      `json:"replicas,omitempty"`
	Ordinals    *appsv1.StatefulSetOrdinals `json:"ordinals,omitempty"`
	ServiceName string                      `json:"serviceName,omitempty"`

	admissionJob `json:",inline"`
}

type admissionJobTemplate struct {
	Spec struct {
		Template *admissionTemplate `json:"template,omitempty"`

		admissionJob `json:",inline"`
	} `json:"spec,omitzero"`
}

type admissionJob struct {
	CompletionMode *batchv1.CompletionMode `json:"completionMode,omitempty"`
	Completions    *int32                  `json:"completions,omitempty"`
}

type admissionPod struct {
	DNSPolicy         corev1.DNSPolicy    `json:"dnsPolicy,omitempty"`
	DNSConfig         *admissionDNSConfig `json:"dnsConfig,omitempty"`
	HostNetwork       bool                `json:"hostNetwork,omitempty"`
	Hostname          string              `json:"hostname,omitempty"`
	HostnameOverride  *string             `json:"hostnameOverride,omitempty"`
	Subdomain         string              `json:"subdomain,omitempty"`
	SetHostnameAsFQDN *bool               `json:"setHostnameAsFQDN,omitempty"`
	OS                *corev1.PodOS       `json:"os,omitempty"`
	NodeSelector      osSelector          `json:"nodeSelector,omitempty"`
	Affinity          *admissionAffinity  `json:"affinity,omitempty"`
}

// admissionAffinity is the part of an affinity that decides on the operating system.
type admissionAffinity struct {
	NodeAffinity *struct {
		Required *struct {
			Terms osTerms `json:"nodeSelectorTerms"`
		} `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
	} `json:"nodeAffinity,omitempty"`
}

// The following types decode the lists and maps of a pod that may have hundreds of thousands
// of values. The API server limits them only by the size of the object, 3 MB. Where a few
// values decide, the others are not decoded: the API server has checked their types.

// maxEntries is the number of entries of the longest list that is decoded. An object of 3 MiB,
// the largest that the API server accepts, has at most as many options: one takes five bytes in
// protobuf. Without the limit, clients other than an API server could make the webhook exceed
// its memory.
const maxEntries = 3 << 20 / 5

// tooLong returns the error of a list with more than maxEntries, after that many were read.
func tooLong(r *document.Reader) error {
	return r.Error("is followed by more entries than an object of 3 MiB can have")
}

// admissionDNSConfig decodes a dnsConfig completely.
type admissionDNSConfig corev1.PodDNSConfig

func (c *admissionDNSConfig) UnmarshalJSON(js []byte) error {
	r := document.NewReader("dnsConfig", js)
	sized := false // a client other than an API server can repeat options thousands of times
	return r.Members(func(key string) (err error) {
		switch key {
		case "nameservers":
			c.Nameservers, err = readStrings(r)
		case "searches":
			c.Searches, err = readStrings(r)
		case "options":
			expected := 0
			if !sized {
				const short = len(`{"name":"a"},`)
				sized, expected = true, min(bytes.Count(js, []byte("{")), len(js)/short, maxEntries)
			}
			c.Options, err = readOptions(r, expected)
		default:
			err = r.Skip()
		}
		return err
	})
}

func readStrings(r *document.Reader) (list []string, err error) {
	if !r.IsNull() {
		list = []string{}
	}
	err = r.Items(func() error {
		if len(list) == maxEntries {
			return tooLong(r)
		}
		s, err := r.String()
		list = append(list, s)
		return err
	})
	return list, err
}

// readOptions reads about as many options as expected.
func readOptions(r *document.Reader, expected int) (list []corev1.PodDNSConfigOption, err error) {
	if !r.IsNull() {
		list = make([]corev1.PodDNSConfigOption, 0, expected)
	}
	err = r.Items(func() error {
		if len(list) == maxEntries {
			return tooLong(r)
		}
		var o corev1.PodDNSConfigOption
		err := r.Members(func(key string) (err error) {
			switch key {
			case "name":
				o.Name, err = r.String()
			case "value":
				o.Value, err = readOptional(r)
			default:
				err = r.Skip()
			}
			return err
		})
		list = append(list, o)
		return err
	})
	return list, err
}

func readOptional(r *document.Reader) (*string, error) {
	if r.IsNull() {
		return nil, r.Skip()
	}
	s, err := r.String()
	return &s, err
}

// annotationPrefix is the prefix of the annotations that are read.
const annotationPrefix = "dnsconfigurer.dev/"

// ownAnnotations decodes the annotations of this project. The result is not nil if the object
// has any annotation.
type ownAnnotations map[string]string

func (a *ownAnnotations) UnmarshalJSON(js []byte) (err error) {
	*a, err = selectStrings(document.NewReader("annotations", js), func(key string) bool {
		return strings.HasPrefix(key, annotationPrefix)
	})
	return err
}

// osSelector decodes the operating system of a nodeSelector.
type osSelector map[string]string

func (s *osSelector) UnmarshalJSON(js []byte) (err error) {
	*s, err = selectStrings(document.NewReader("nodeSelector", js), func(key string) bool {
		return key == corev1.LabelOSStable
	})
	return err
}

// selectStrings returns the members of an object with some keys. They must be strings.
func selectStrings(r *document.Reader, selected func(key string) bool) (m map[string]string, err error) {
	if !r.IsNull() {
		m = map[string]string{}
	}
	err = r.Members(func(key string) (err error) {
		if !selected(key) {
			return r.Skip()
		}
		m[key], err = r.String()
		return err
	})
	return m, err
}

// osTerms decodes as many nodeSelectorTerms as decide whether all require Windows: the first
// one that does not, or else the last one. Of a term it decodes the expressions up to the one that
// requires Windows, and keeps only that.
type osTerms []corev1.NodeSelectorTerm

func (t *osTerms) UnmarshalJSON(js []byte) error {
	*t = nil
	r := document.NewReader("nodeSelectorTerms", js)
	return r.Items(func() error {
		if len(*t) > 0 && allowsOther((*t)[0]) {
			return r.Skip()
		}
		term, err := readOSTerm(r)
		*t = osTerms{term}
		return err
	})
}

func readOSTerm(r *document.Reader) (term corev1.NodeSelectorTerm, err error) {
	err = r.Members(func(key string) error {
		if key != "matchExpressions" {
			return r.Skip()
		}
		term.MatchExpressions = nil
		return r.Items(func() error {
			if term.MatchExpressions != nil {
				return r.Skip()
			}
			requirement, err := readOSRequirement(r)
			if requiresWindows(requirement) {
				term.MatchExpressions = []corev1.NodeSelectorRequirement{requirement}
			}
			return err
		})
	})
	return term, err
}

func readOSRequirement(r *document.Reader) (q corev1.NodeSelectorRequirement, err error) {
	err = r.Members(func(key string) (err error) {
		switch key {
		case "key":
			q.Key, err = r.String()
		case "operator":
			var operator string
			operator, err = r.String()
			q.Operator = corev1.NodeSelectorOperator(operator)
		case "values":
			q.Values, err = readStrings(r)
		default:
			err = r.Skip()
		}
		return err
	})
	return q, err
}
