// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zonesync

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

// Service is a Service of a manifest.
type Service struct {
	*corev1.Service
	Source kube.Object

	HasSlices bool // the manifest has EndpointSlices of the Service
}

// Services returns the Services of m, in order.
func (m Manifest) Services() (list []Service) {
	type key struct{ namespace, service string }
	slices := map[key]bool{}
	for _, o := range m.objects {
		if o.resource.name == endpointSlices.name {
			slices[key{o.object.GetNamespace(), o.object.GetLabels()[discoveryv1.LabelServiceName]}] = true
		}
	}
	for _, o := range m.objects {
		if s, ok := o.object.(*corev1.Service); ok {
			list = append(list, Service{s, o.source, slices[key{s.Namespace, s.Name}]})
		}
	}
	return list
}

// IsHeadless reports whether s has the addresses of its endpoints.
func (s Service) IsHeadless() bool {
	return s.Spec.Type != corev1.ServiceTypeExternalName && clusterIPs(&s.Spec) == nil &&
		(s.Spec.ClusterIP != "" || len(s.Spec.ClusterIPs) > 0)
}

// Selects reports whether s selects a pod of w.
func (s Service) Selects(w kube.Workload) bool {
	if w.Namespace != s.Namespace {
		return false
	}
	n := w.Ordinals
	for i := range min(int64(n.Last)-int64(n.First)+1, maxPods) {
		if w.SelectedBy(s.Spec.Selector, int64(n.First)+i) {
			return true
		}
	}
	return false
}

// Namespaces returns the namespaces of m's objects. It may have duplicates.
func (m Manifest) Namespaces() (list []string) {
	for _, o := range m.objects {
		if o.resource.name == namespaces.name {
			list = append(list, o.object.GetName())
		} else {
			list = append(list, o.object.GetNamespace())
		}
	}
	for _, w := range m.pods {
		list = append(list, w.Namespace)
	}
	return list
}

// Pods returns the pods and pod templates of m.
func (m Manifest) Pods() []kube.Workload { return m.pods }
