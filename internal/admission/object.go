// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// KindPod is the kind whose objects are pods. Those of every other kind make them.
const KindPod = "Pod"

const (
	kindStatefulSet = "StatefulSet"
	kindCronJob     = "CronJob"
)

// Object is a pod, or an object that makes pods with the one among them that has the
// longest host name.
type Object struct {
	Kind      string // as Pod or Deployment
	Name      string // metadata.name
	Operation Operation

	// Pod is as a node would see it, with the API's defaults. Pod.Path leads to it
	// from the document: "spec.template." for a Deployment, "items[2]." for a Pod in
	// a List.
	Pod policy.Pod

	// Ordinal tells that the host names of the pods are Name and a number, as those
	// of a StatefulSet and of an Indexed Job; Pod has the highest.
	Ordinal bool
}

// Operation is what is being done to an object.
type Operation string

// The operations, in the words of AdmissionReview. The zero value counts as Create.
const (
	Create Operation = "CREATE"
	Update Operation = "UPDATE"
)

// of returns a path from the object as one from the document.
func (o *Object) of(field string) string {
	if strings.HasPrefix(o.Pod.Path, "items[") {
		item, _, _ := strings.Cut(o.Pod.Path, ".")
		return item + "." + field
	}
	return field
}

// ofPod returns a path from the pod as one from the document.
func (o *Object) ofPod(field string) string { return o.Pod.Path + field }

// hostnameField is where the host name of the pods is from.
func (o *Object) hostnameField() string {
	if o.Ordinal || o.Pod.Hostname == "" {
		return o.of("metadata.name")
	}
	return o.ofPod("spec.hostname")
}

// subdomainField is where the subdomain of the pods is from.
func (o *Object) subdomainField() string {
	if o.Kind == kindStatefulSet {
		return o.of("spec.serviceName")
	}
	return o.ofPod("spec.subdomain")
}
