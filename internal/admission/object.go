// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// KindPod is the kind of pods. Objects of all other kinds create pods.
const KindPod = "Pod"

const (
	kindStatefulSet           = "StatefulSet"
	kindJob                   = "Job"
	kindCronJob               = "CronJob"
	kindReplicationController = "ReplicationController"
)

// Object is a pod, or an object that creates pods together with the one of these pods that
// has the longest host name.
type Object struct {
	Kind      string // such as Pod or Deployment
	Name      string // metadata.name, or an example if it is generated
	Operation Operation

	// Pod is the pod with the API's defaults. Pod.Path is its path in the document:
	// "spec.template." for a Deployment, "items[2]." for a Pod in a List.
	Pod policy.Pod

	// Node is the node of a static pod, "" for other pods. No admission policy changes a
	// static pod, and its kubelet validates it like the API server.
	Node string

	// GeneratedName is set if the object has metadata.generateName instead of a name.
	GeneratedName bool

	// GenerateName is metadata.generateName. The API server validates it even if there is a
	// name.
	GenerateName string

	// ManualSelector is set if a Job has a selector of its own: its pods do not have its name
	// in a label.
	ManualSelector bool

	// HostAliases is spec.hostAliases of the pod.
	HostAliases []HostAlias

	// TemplateHostname is spec.hostname of the template of an Indexed Job, which the API server
	// validates although its controller replaces it.
	TemplateHostname string

	// Ordinal is set if the host names of the pods are Name and a number, like those of
	// a StatefulSet or an Indexed Job. Pod has the highest number.
	Ordinal bool
}

// Operation is the operation on an object.
type Operation string

// The operations, as in an AdmissionReview. The zero value is treated as Create.
const (
	Create Operation = "CREATE"
	Update Operation = "UPDATE"
)

// of converts a path in the object to a path in the document.
func (o *Object) of(field string) string {
	if strings.HasPrefix(o.Pod.Path, "items[") {
		item, _, _ := strings.Cut(o.Pod.Path, ".")
		return item + "." + field
	}
	return field
}

// nameField returns the field that the name of the object is from.
func (o *Object) nameField() string {
	if o.GeneratedName {
		return o.of("metadata.generateName")
	}
	return o.of("metadata.name")
}

// ofPod converts a path in the pod to a path in the document.
func (o *Object) ofPod(field string) string { return o.Pod.Path + field }

// hostnameField returns the field that the host name of the pods is from.
func (o *Object) hostnameField() string {
	if o.Ordinal || o.Pod.Hostname == "" {
		return o.nameField()
	}
	return o.ofPod("spec.hostname")
}

// subdomainField returns the field that the subdomain of the pods is from.
func (o *Object) subdomainField() string {
	if o.Kind == kindStatefulSet {
		return o.of("spec.serviceName")
	}
	return o.ofPod("spec.subdomain")
}
