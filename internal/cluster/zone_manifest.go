// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Manifest holds the objects of a file from which a zone is built.
type Manifest struct {
	Unknown []kube.UnknownField // fields of the objects that were ignored

	objects []manifestObject
	pods    []kube.Workload
}

// manifestObject is an object and its place in a manifest.
type manifestObject struct {
	source   kube.Object
	resource resource
	object   metav1.Object
}

// ParseManifest parses the Namespaces, Services and EndpointSlices of a file, and the pods
// and pod templates that a headless Service may select. It ignores other objects. Objects
// without a namespace are in "default". The error joins one *kube.InputError for each
// problem; valid objects are returned in any case.
func ParseManifest(file string, data []byte) (Manifest, error) {
	parsed, err := kube.ParseManifest(file, data)
	m, invalid := DecodeManifest(parsed, metav1.NamespaceDefault)
	if len(parsed.Workloads)+len(parsed.Others) == 0 { // an empty file may be half written
		err = errors.Join(append(parsed.Notes, err)...)
	}
	return m, errors.Join(err, invalid)
}

// DecodeManifest is ParseManifest for a manifest that is already parsed. Objects without a
// namespace are in namespace.
func DecodeManifest(parsed kube.Manifest, namespace string) (Manifest, error) {
	var m Manifest
	for _, w := range parsed.Workloads {
		w.Namespace = cmp.Or(w.Namespace, namespace)
		m.pods = append(m.pods, w)
	}
	var errs []error
	for _, source := range parsed.Others {
		o := manifestObject{source: source}
		switch source.APIVersion + " " + source.Kind {
		case "v1 Namespace":
			o.resource, o.object = namespaces, &corev1.Namespace{}
		case "v1 Service":
			o.resource, o.object = services, &corev1.Service{}
		case "discovery.k8s.io/v1 EndpointSlice":
			o.resource, o.object = endpointSlices, &discoveryv1.EndpointSlice{}
		default:
			continue
		}
		ignored, err := o.decode(namespace)
		m.Unknown = append(m.Unknown, ignored...)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		m.objects = append(m.objects, o)
	}
	return m, errors.Join(errs...)
}

// decode decodes the source into the object.
func (o *manifestObject) decode(namespace string) (ignored []kube.UnknownField, err error) {
	if ignored, err = o.source.Decode(o.object); err != nil {
		return ignored, err
	}
	if o.object.GetName() == "" {
		return ignored, o.source.InputError("metadata.name", errors.New("is missing"), "name the object")
	}
	if o.object.GetNamespace() == "" && o.resource.name != namespaces.name {
		o.object.SetNamespace(namespace)
	}
	return ignored, nil
}

// LoadZone replaces all objects of a zone at domain by those of the manifests. The zone is
// loaded then: names that are not in the manifests do not exist. Of several objects with
// one name the last wins. Objects to which a cluster would assign addresses have synthetic
// ones; see [Synthetic]. The error joins one *kube.InputError for each object, or part of
// one, that was left out.
func LoadZone(z *zone.Zone, domain fqdn.Name, manifests ...Manifest) error {
	all := map[string]map[types.NamespacedName]manifestObject{namespaces.name: {}, services.name: {}, endpointSlices.name: {}}
	var pods []kube.Workload
	for _, m := range manifests {
		for _, o := range m.objects {
			all[o.resource.name][nameOf(o.object)] = o
		}
		pods = append(pods, m.pods...)
	}
	synthesize(all[services.name], all[endpointSlices.name], pods)

	var errs []error
	z.Update(uint32(time.Now().Unix()), func(e *zone.Edit) {
		for _, r := range []resource{namespaces, services, endpointSlices} {
			objects, err := convertAll(converter{domain, z}, all[r.name])
			errs = append(errs, err)
			r.replaceAll(e, objects)
		}
		e.SetLoaded()
	})
	return errors.Join(errs...)
}

// convertAll converts objects of one resource, in the order of their names.
func convertAll(c converter, objects map[types.NamespacedName]manifestObject) ([]*object, error) {
	var list []*object
	var errs []error
	for _, n := range slices.SortedFunc(maps.Keys(objects), compareNames) {
		o := objects[n]
		converted, err := c.convert(o.object)
		if err == nil {
			list, err = append(list, converted), converted.problem()
		}
		if err != nil {
			errs = append(errs, o.source.InputError("", fmt.Errorf("%s %s: %w", o.resource.name, n, err), ""))
		}
	}
	return list, errors.Join(errs...)
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

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
