// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zonesync

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

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Manifest is what a file says of names.
type Manifest struct {
	objects []written
	pods    []kube.Workload
}

// written is an object and where it stands.
type written struct {
	source kube.Object
	kind   kind
	object metav1.Object
}

// ParseManifest reads the Namespaces, Services and EndpointSlices of a file, and the
// pods and pod templates for which a headless Service may stand. Other objects are
// passed over, and those that name no namespace are in "default". The error joins one
// *kube.InputError for each thing that is wrong; what is right is returned beside it.
func ParseManifest(file string, data []byte) (Manifest, error) {
	parsed, err := kube.ParseManifest(file, data)
	m, wrong := DecodeManifest(parsed, metav1.NamespaceDefault)
	return m, errors.Join(err, wrong)
}

// DecodeManifest is ParseManifest for a manifest that is already parsed. Objects that name no namespace are in
// namespace.
func DecodeManifest(parsed kube.Manifest, namespace string) (Manifest, error) {
	var m Manifest
	for _, w := range parsed.Workloads {
		w.Namespace = cmp.Or(w.Namespace, namespace)
		m.pods = append(m.pods, w)
	}
	var errs []error
	for _, o := range parsed.Others {
		w := written{source: o}
		switch o.APIVersion + " " + o.Kind {
		case "v1 Namespace":
			w.kind, w.object = namespaces, &corev1.Namespace{}
		case "v1 Service":
			w.kind, w.object = services, &corev1.Service{}
		case "discovery.k8s.io/v1 EndpointSlice":
			w.kind, w.object = endpointSlices, &discoveryv1.EndpointSlice{}
		default:
			continue
		}
		if err := o.Decode(w.object); err != nil {
			errs = append(errs, err)
			continue
		}
		if w.object.GetName() == "" {
			errs = append(errs, o.InputError("metadata.name", errors.New("is missing"), "name the object"))
			continue
		}
		if w.object.GetNamespace() == "" && w.kind.resource != namespaces.resource {
			w.object.SetNamespace(namespace)
		}
		m.objects = append(m.objects, w)
	}
	return m, errors.Join(errs...)
}

// Load makes the manifests all that a zone at domain holds. The zone is loaded then:
// what they do not name does not exist. Of several objects with one name the last
// counts. Objects that no cluster has given addresses have synthetic ones; see
// [Synthetic]. The error joins one *kube.InputError for each thing that had to be left
// out.
func Load(z *zone.Zone, domain fqdn.Name, manifests ...Manifest) error {
	all := map[string]map[name]written{namespaces.resource: {}, services.resource: {}, endpointSlices.resource: {}}
	var pods []kube.Workload
	for _, m := range manifests {
		for _, w := range m.objects {
			all[w.kind.resource][name{w.object.GetNamespace(), w.object.GetName()}] = w
		}
		pods = append(pods, m.pods...)
	}
	synthesize(all[services.resource], all[endpointSlices.resource], pods)

	var errs []error
	convert := func(objects map[name]written) []object {
		var list []object
		for _, n := range slices.SortedFunc(maps.Keys(objects), compareNames) {
			w := objects[n]
			made, err := converter{domain}.convert(w.object)
			if err = errors.Join(err, made.wrong); err != nil {
				errs = append(errs, w.source.InputError("", fmt.Errorf("%s %s/%s: %w", w.kind.resource, n.namespace, n.name, err), ""))
			}
			list = append(list, made)
		}
		return list
	}
	now := z.Snapshot()
	z.Update(uint32(time.Now().Unix()), func(e *zone.Edit) {
		for _, k := range []kind{namespaces, services, endpointSlices} {
			k.replace(e, now, convert(all[k.resource]))
		}
		e.SetLoaded()
	})
	return errors.Join(errs...)
}

func compareNames(a, b name) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}
