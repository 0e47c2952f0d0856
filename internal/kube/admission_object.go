// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"errors"

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
