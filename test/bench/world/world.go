// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
)

// World holds the objects of a cluster.
type World struct {
	Namespaces []*corev1.Namespace
	Services   []*corev1.Service
	Slices     []*discoveryv1.EndpointSlice
	Pods       []*corev1.Pod
}

// Objects returns all of w, namespaces first.
func (w *World) Objects() []kubeapi.Object {
	var all []kubeapi.Object
	for _, o := range w.Namespaces {
		all = append(all, o)
	}
	for _, o := range w.Services {
		all = append(all, o)
	}
	for _, o := range w.Slices {
		all = append(all, o)
	}
	for _, o := range w.Pods {
		all = append(all, o)
	}
	return all
}

// HasNamespace reports whether the namespace exists.
func (w *World) HasNamespace(name string) bool {
	return slices.ContainsFunc(w.Namespaces, func(n *corev1.Namespace) bool { return n.Name == name })
}

// Service returns the service, nil if there is none.
func (w *World) Service(namespace, name string) *corev1.Service {
	i := slices.IndexFunc(w.Services, func(s *corev1.Service) bool { return s.Namespace == namespace && s.Name == name })
	if i < 0 {
		return nil
	}
	return w.Services[i]
}

// SlicesOf returns the slices with the label of the Service.
func (w *World) SlicesOf(namespace, name string) []*discoveryv1.EndpointSlice {
	var list []*discoveryv1.EndpointSlice
	for _, s := range w.Slices {
		if s.Namespace == namespace && name != "" && s.Labels[discoveryv1.LabelServiceName] == name {
			list = append(list, s)
		}
	}
	return list
}

// Untolerant returns w without Services that tolerate endpoints that are not ready.
func (w *World) Untolerant() *World {
	other := *w
	other.Services = slices.Clone(w.Services)
	for i, s := range other.Services {
		if ToleratesUnready(s) {
			s = s.DeepCopy()
			s.Spec.PublishNotReadyAddresses, s.Annotations = false, nil
			other.Services[i] = s
		}
	}
	return &other
}

// IsHeadless reports whether s is headless.
func IsHeadless(s *corev1.Service) bool {
	return !IsExternal(s) && s.Spec.ClusterIP == corev1.ClusterIPNone
}

// IsExternal reports whether s is an ExternalName.
func IsExternal(s *corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeExternalName }

// ToleratesUnready reports whether endpoints of s that are not ready are published.
func ToleratesUnready(s *corev1.Service) bool {
	return s.Spec.PublishNotReadyAddresses || s.Annotations["service.alpha.kubernetes.io/tolerate-unready-endpoints"] == "true"
}

// IsReady reports whether e is ready; unknown means ready.
func IsReady(e discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }

// Hostname returns the label of e at address below its Service: its hostname, or the
// address with dashes, as in every cluster DNS server.
func Hostname(e discoveryv1.Endpoint, address string) string {
	if e.Hostname != nil && *e.Hostname != "" {
		return *e.Hostname
	}
	label := strings.NewReplacer(".", "-", ":", "-").Replace(address)
	if strings.HasSuffix(label, "-") {
		label += "0" // a label does not end in a dash
	}
	return label
}

// String returns the objects in w that concern the Service, to reproduce a failure.
func (w *World) String(namespace, name string) string {
	var b strings.Builder
	if s := w.Service(namespace, name); s != nil {
		fmt.Fprintf(&b, "  service %s/%s: type %q, clusterIPs %v, externalName %q, publishNotReady %v, ports %v\n", s.Namespace, s.Name,
			s.Spec.Type, s.Spec.ClusterIPs, s.Spec.ExternalName, ToleratesUnready(s), portsOf(s))
	}
	for _, s := range w.SlicesOf(namespace, name) {
		b.WriteString(sliceText(s))
	}
	return b.String()
}

// AddressString returns the slices with an address, to reproduce a failure.
func (w *World) AddressString(a netip.Addr) string {
	var b strings.Builder
	for _, s := range w.Services {
		if slices.Contains(s.Spec.ClusterIPs, a.String()) {
			b.WriteString(w.String(s.Namespace, s.Name))
		}
	}
	for _, s := range w.Slices {
		if slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool { return slices.Contains(e.Addresses, a.String()) }) {
			b.WriteString(sliceText(s))
		}
	}
	return b.String()
}

func portsOf(s *corev1.Service) []string {
	var list []string
	for _, p := range s.Spec.Ports {
		list = append(list, fmt.Sprintf("%s/%s=%d", p.Name, p.Protocol, p.Port))
	}
	return list
}

func sliceText(s *discoveryv1.EndpointSlice) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  slice %s/%s of %q, %s:", s.Namespace, s.Name, s.Labels[discoveryv1.LabelServiceName], s.AddressType)
	for _, p := range s.Ports {
		fmt.Fprintf(&b, " %s/%s=%d", *p.Name, *p.Protocol, *p.Port)
	}
	for _, e := range s.Endpoints {
		fmt.Fprintf(&b, "\n    %v ready=%v", e.Addresses, IsReady(e))
		if e.Hostname != nil {
			fmt.Fprintf(&b, " hostname=%s", *e.Hostname)
		}
	}
	return b.String() + "\n"
}
