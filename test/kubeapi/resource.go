// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"fmt"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is an object of one of the kinds that the server serves.
type Object interface {
	metav1.Object
	runtime.Object
}

// resource is a resource that the server serves.
type resource struct {
	name string // in the path of a URL
	kind schema.GroupVersionKind
	list runtime.Object // empty, as item
	item Object
}

var resources = []resource{
	{"services", corev1.SchemeGroupVersion.WithKind("Service"), new(corev1.ServiceList), new(corev1.Service)},
	{"endpointslices", discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"),
		new(discoveryv1.EndpointSliceList), new(discoveryv1.EndpointSlice)},
	{"namespaces", corev1.SchemeGroupVersion.WithKind("Namespace"), new(corev1.NamespaceList), new(corev1.Namespace)},
	{"pods", corev1.SchemeGroupVersion.WithKind("Pod"), new(corev1.PodList), new(corev1.Pod)},
	{"statefulsets", appsv1.SchemeGroupVersion.WithKind("StatefulSet"), new(appsv1.StatefulSetList), new(appsv1.StatefulSet)},
	{"configmaps", corev1.SchemeGroupVersion.WithKind("ConfigMap"), new(corev1.ConfigMapList), new(corev1.ConfigMap)},
	{"nodes", corev1.SchemeGroupVersion.WithKind("Node"), new(corev1.NodeList), new(corev1.Node)},
	{"servicecidrs", networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"),
		new(networkingv1.ServiceCIDRList), new(networkingv1.ServiceCIDR)},
}

// resourceOf returns the resource that o belongs to.
func resourceOf(o Object) resource {
	for _, r := range resources {
		if reflect.TypeOf(r.item) == reflect.TypeOf(o) {
			return r
		}
	}
	panic(fmt.Sprintf("kubeapi: unsupported type %T", o))
}

// empty returns an object that has its kind and no other field.
func (r resource) empty() Object {
	o := r.item.DeepCopyObject().(Object)
	o.GetObjectKind().SetGroupVersionKind(r.kind)
	return o
}

// emptyList returns a list without items.
func (r resource) emptyList() runtime.Object {
	list := r.list.DeepCopyObject()
	list.GetObjectKind().SetGroupVersionKind(r.kind.GroupVersion().WithKind(r.kind.Kind + "List"))
	return list
}

// target is the target of a request: all objects of a resource, those of a namespace, or
// one object.
type target struct {
	resource        resource
	namespace, name string
}

// parsePath parses /api/v1/... and /apis/GROUP/VERSION/...
func parsePath(path string) (target, bool) {
	part := strings.Split(strings.Trim(path, "/"), "/")
	var group schema.GroupVersion
	switch {
	case len(part) > 2 && part[0] == "api":
		group, part = schema.GroupVersion{Version: part[1]}, part[2:]
	case len(part) > 3 && part[0] == "apis":
		group, part = schema.GroupVersion{Group: part[1], Version: part[2]}, part[3:]
	default:
		return target{}, false
	}
	var t target
	if len(part) > 2 && part[0] == "namespaces" {
		t.namespace, part = part[1], part[2:]
	}
	if len(part) == 2 {
		t.name = part[1]
	}
	for _, r := range resources {
		if r.name == part[0] && r.kind.GroupVersion() == group && len(part) <= 2 {
			t.resource = r
			return t, true
		}
	}
	return target{}, false
}

// fieldsOf returns the fields of o that a field selector may use.
func fieldsOf(o Object) fields.Set {
	set := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
	if pod, ok := o.(*corev1.Pod); ok {
		set["spec.nodeName"] = pod.Spec.NodeName
		set["status.phase"] = string(pod.Status.Phase)
	}
	return set
}
