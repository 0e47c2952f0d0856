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

// ReadReviewed reads a pod or an object that makes pods as the API server shows it to
// admission: JSON, with fields of versions that we may not know. Nothing is read but what
// decides about DNS and host names, so that the rest may be large, or of another type
// than it is today. known is false for other kinds.
func ReadReviewed(apiVersion, kind string, js []byte) (w Workload, known bool, err error) {
	read, known := makers[header{apiVersion, kind}]
	if !known {
		return Workload{}, false, nil
	}
	var r reviewed
	if err := document.Decode(js, &r); err != nil {
		return Workload{}, true, err
	}
	reduced, err := json.Marshal(r)
	if err != nil {
		return Workload{}, true, err
	}
	w, problems := read(reduced)
	if len(problems) > 0 {
		return Workload{}, true, errors.Join(problems...)
	}
	w.Kind, w.Pod.Namespace = kind, w.Namespace
	SetDefaults(&w.Pod.Spec)
	return w, true, nil
}

// reviewed is the part that is read, of all kinds together. Written again it is an
// object of the kind that it was, but small.
type reviewed struct {
	Metadata reviewedMeta      `json:"metadata,omitzero"`
	Spec     reviewedSpec      `json:"spec,omitzero"`
	Template *reviewedTemplate `json:"template,omitempty"` // of a PodTemplate
}

type reviewedMeta struct {
	Name         string            `json:"name,omitempty"`
	GenerateName string            `json:"generateName,omitempty"`
	Namespace    string            `json:"namespace,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
}

type reviewedTemplate struct {
	Metadata reviewedMeta `json:"metadata,omitzero"`
	Spec     reviewedPod  `json:"spec,omitzero"`
}

type reviewedSpec struct {
	reviewedPod `json:",inline"`

	Template    *reviewedTemplate    `json:"template,omitempty"`
	JobTemplate *reviewedJobTemplate `json:"jobTemplate,omitempty"`

	// Of a StatefulSet.
	Replicas    *int32                      `json:"replicas,omitempty"`
	Ordinals    *appsv1.StatefulSetOrdinals `json:"ordinals,omitempty"`
	ServiceName string                      `json:"serviceName,omitempty"`

	reviewedJob `json:",inline"`
}

type reviewedJobTemplate struct {
	Spec struct {
		Template *reviewedTemplate `json:"template,omitempty"`

		reviewedJob `json:",inline"`
	} `json:"spec,omitzero"`
}

type reviewedJob struct {
	CompletionMode *batchv1.CompletionMode `json:"completionMode,omitempty"`
	Completions    *int32                  `json:"completions,omitempty"`
}

type reviewedPod struct {
	DNSPolicy         corev1.DNSPolicy     `json:"dnsPolicy,omitempty"`
	DNSConfig         *corev1.PodDNSConfig `json:"dnsConfig,omitempty"`
	HostNetwork       bool                 `json:"hostNetwork,omitempty"`
	Hostname          string               `json:"hostname,omitempty"`
	HostnameOverride  *string              `json:"hostnameOverride,omitempty"`
	Subdomain         string               `json:"subdomain,omitempty"`
	SetHostnameAsFQDN *bool                `json:"setHostnameAsFQDN,omitempty"`
	OS                *corev1.PodOS        `json:"os,omitempty"`
}
