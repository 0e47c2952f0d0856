// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zonesync

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// name is what an object of one type is called.
type name struct{ namespace, name string }

// object is an object of the API in the zone's terms.
type object struct {
	name
	put   func(*zone.Edit) // nil: there is nothing of it in the zone
	wrong error            // what had to be left out; nil: nothing

	changed time.Time   // of an EndpointSlice: when the change happened that led to this version; may be zero
	kind    serviceKind // of an EndpointSlice
	cluster string      // of the namespace kube-system: its UID, which stands for the cluster
}

// converter turns objects of the API into those of a zone at domain.
type converter struct{ domain fqdn.Name }

// convert takes a pointer to one of the four types.
func (c converter) convert(obj any) (object, error) {
	switch o := obj.(type) {
	case *corev1.Namespace:
		return c.namespace(o), nil
	case *corev1.Service:
		s, err := c.service(o)
		return objectOf(o, s, err, func(e *zone.Edit) { e.PutService(*s) }), nil
	case *discoveryv1.EndpointSlice:
		s, err := c.slice(o)
		made := objectOf(o, s, err, func(e *zone.Edit) { e.PutEndpointSlice(*s) })
		// Absent or unreadable, the time stays zero.
		made.changed, _ = time.Parse(time.RFC3339Nano, o.Annotations[corev1.EndpointsLastChangeTriggerTime])
		made.kind = clusterIP
		if _, is := o.Labels[corev1.IsHeadlessService]; is {
			made.kind = headless
		}
		return made, nil
	case *corev1.Pod:
		p, err := c.pod(o)
		return objectOf(o, p, err, func(e *zone.Edit) { e.PutPod(*p) }), nil
	}
	return object{}, fmt.Errorf("the API sent %T", obj)
}

func objectOf[T any](meta metav1.Object, value *T, err error, put func(*zone.Edit)) object {
	o := object{name: name{meta.GetNamespace(), meta.GetName()}, wrong: err}
	if value != nil {
		o.put = put
	}
	return o
}

func (c converter) namespace(o *corev1.Namespace) object {
	made := object{name: name{name: o.Name}, wrong: zone.CheckNamespace(c.domain, o.Name)}
	if made.wrong == nil {
		called := made.name.name
		made.put = func(e *zone.Edit) { e.PutNamespace(called) }
	}
	if o.Name == metav1.NamespaceSystem {
		made.cluster = string(o.UID)
	}
	return made
}

// tolerateUnready is what publishNotReadyAddresses was before it was a field; the
// specification (2.1) still knows it.
const tolerateUnready = "service.alpha.kubernetes.io/tolerate-unready-endpoints"

// service returns nil for a Service that can have no names. The error joins what
// was left out.
func (c converter) service(o *corev1.Service) (*zone.Service, error) {
	s := zone.Service{Namespace: o.Namespace, Name: o.Name, PublishNotReady: o.Spec.PublishNotReadyAddresses || o.Annotations[tolerateUnready] == "true"}
	if err := s.Check(c.domain); err != nil {
		return nil, err
	}
	// The API keeps fields of another type when the type changes: only those of the
	// present one count.
	if o.Spec.Type == corev1.ServiceTypeExternalName {
		if s.ExternalName = o.Spec.ExternalName; s.ExternalName == "" {
			return nil, errors.New("spec.externalName is missing")
		}
		return &s, nil
	}
	var errs []error
	ips := clusterIPs(&o.Spec)
	for _, ip := range ips {
		addr, err := netip.ParseAddr(ip)
		if err != nil || addr.Zone() != "" {
			errs = append(errs, fmt.Errorf("spec.clusterIPs: %q is not an address", ip))
			continue
		}
		s.ClusterIPs = append(s.ClusterIPs, addr.Unmap())
	}
	if len(ips) > 0 && len(s.ClusterIPs) == 0 {
		return nil, errors.Join(errs...) // without them it would pass for a headless one
	}
	for i, p := range o.Spec.Ports {
		port, err := newPort(p.Name, p.Protocol, p.Port)
		if err != nil {
			errs = append(errs, fmt.Errorf("spec.ports[%d]: %w", i, err))
			continue
		}
		s.Ports = append(s.Ports, port)
	}
	return &s, errors.Join(errs...)
}

// clusterIPs returns the virtual addresses as text; there are none for a headless
// Service. Servers before 1.20 and many manifests have clusterIP only.
func clusterIPs(spec *corev1.ServiceSpec) []string {
	ips := spec.ClusterIPs
	if len(ips) == 0 {
		ips = []string{spec.ClusterIP}
	}
	if ips[0] == corev1.ClusterIPNone || ips[0] == "" {
		return nil
	}
	return ips
}

func newPort(name string, protocol corev1.Protocol, number int32) (zone.Port, error) {
	p := zone.Port{Name: name, Number: uint16(number)}
	switch protocol {
	case corev1.ProtocolTCP, "": // the API's default
		p.Protocol = "tcp"
	case corev1.ProtocolUDP:
		p.Protocol = "udp"
	case corev1.ProtocolSCTP:
		p.Protocol = "sctp"
	default:
		p.Protocol = string(protocol)
	}
	if number != int32(p.Number) {
		return p, fmt.Errorf("port %d: a port is at most 65535", number)
	}
	return p, p.Check()
}

// slice returns nil for a slice that is not for DNS: its endpoints are names
// themselves, or it belongs to no Service. The error joins what was left out.
func (c converter) slice(o *discoveryv1.EndpointSlice) (*zone.EndpointSlice, error) {
	s := zone.EndpointSlice{Namespace: o.Namespace, Name: o.Name, Service: o.Labels[discoveryv1.LabelServiceName]}
	if o.AddressType == discoveryv1.AddressTypeFQDN || s.Service == "" {
		return nil, nil
	}
	if err := s.Check(c.domain); err != nil {
		return nil, err
	}
	var errs []error
	for i, p := range o.Ports {
		if p.Port == nil { // all ports: SRV has none to name
			continue
		}
		port, err := newPort(deref(p.Name), deref(p.Protocol), *p.Port)
		if err != nil {
			errs = append(errs, fmt.Errorf("ports[%d]: %w", i, err))
			continue
		}
		s.Ports = append(s.Ports, port)
	}
	s.Endpoints = make([]zone.Endpoint, 0, len(o.Endpoints))
	for i, ep := range o.Endpoints {
		for _, text := range ep.Addresses {
			addr, err := netip.ParseAddr(text)
			made := zone.Endpoint{
				Addr:     addr.Unmap(),
				Hostname: deref(ep.Hostname),
				Ready:    ep.Conditions.Ready == nil || *ep.Conditions.Ready, // nil is unknown, which counts as ready
			}
			if err == nil {
				err = s.CheckEndpoint(c.domain, made)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("endpoints[%d]: %w", i, err))
				continue
			}
			s.Endpoints = append(s.Endpoints, made)
		}
	}
	return &s, errors.Join(errs...)
}

// pod returns nil for a pod without an address, or one that has ended: its address
// may be another's already.
func (c converter) pod(o *corev1.Pod) (*zone.Pod, error) {
	if o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed {
		return nil, nil
	}
	ips := o.Status.PodIPs
	if len(ips) == 0 && o.Status.PodIP != "" {
		ips = []corev1.PodIP{{IP: o.Status.PodIP}}
	}
	p := zone.Pod{Namespace: o.Namespace, Name: o.Name}
	for _, ip := range ips {
		addr, err := netip.ParseAddr(ip.IP)
		if err != nil {
			return nil, fmt.Errorf("status.podIPs: %q is not an address", ip.IP)
		}
		if addr = addr.Unmap(); !slices.Contains(p.Addrs, addr) {
			p.Addrs = append(p.Addrs, addr)
		}
	}
	if err := p.Check(c.domain); err != nil || p.Addrs == nil {
		return nil, err
	}
	return &p, nil
}

func deref[T ~string](p *T) T {
	if p == nil {
		return ""
	}
	return *p
}
