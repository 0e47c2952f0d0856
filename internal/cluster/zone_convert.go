// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// object is a converted API object. A list of a large cluster has 100,000 of them, beside the zone.
type object struct {
	value    any // a *zone.Service, *zone.EndpointSlice, *zone.Pod, or the name of a namespace; nil: it is not in the zone
	*remarks     // nil: there are none
}

// remarks are what the value of an object does not say.
type remarks struct {
	absent  types.NamespacedName // the name of an object without a value
	err     error                // why parts of it were left out; nil: none were
	cluster string               // of the namespace kube-system: its UID, which identifies the cluster
}

func (o *object) name() types.NamespacedName {
	if o.value == nil {
		return o.absent
	}
	return nameOfValue(o.value)
}

// problem returns why parts of o were left out, nil if none were.
func (o *object) problem() error {
	if o.remarks == nil {
		return nil
	}
	return o.err
}

// nameOfValue returns the name of the value of an object.
func nameOfValue(value any) types.NamespacedName {
	switch v := value.(type) {
	case *zone.Service:
		return types.NamespacedName{Namespace: v.Namespace, Name: v.Name}
	case *zone.EndpointSlice:
		return types.NamespacedName{Namespace: v.Namespace, Name: v.Name}
	case *zone.Pod:
		return types.NamespacedName{Namespace: v.Namespace, Name: v.Name}
	}
	return types.NamespacedName{Name: value.(string)}
}

// trigger is the change that led to a version of an EndpointSlice.
type trigger struct {
	time time.Time
	kind serviceKind
}

// triggerOf returns nil for other objects than an EndpointSlice, and if its annotation is missing or malformed.
func triggerOf(obj any) *trigger {
	slice, ok := obj.(*EndpointSlice)
	if !ok {
		return nil
	}
	changed, err := time.Parse(time.RFC3339Nano, slice.Annotations[corev1.EndpointsLastChangeTriggerTime])
	if err != nil {
		return nil
	}
	if _, is := slice.Labels[corev1.IsHeadlessService]; is {
		return &trigger{changed, headless}
	}
	return &trigger{changed, clusterIP}
}

// converter converts API objects to objects of a zone with a domain. An object that is equal to the one in the zone
// shares its memory: when everything is listed again, almost all are.
type converter struct {
	domain fqdn.Name
	zone   *zone.Zone
}

// convert converts a *Namespace, *Service, *EndpointSlice or *Pod.
func (c converter) convert(obj any) (*object, error) {
	present := c.zone.Snapshot()
	switch o := obj.(type) {
	case *corev1.Namespace:
		return c.namespace(o), nil
	case *corev1.Service:
		s, err := c.service(o)
		return newObject(o, s, err, present.ShareService), nil
	case *EndpointSlice: // of a watch
		return c.convert(&o.EndpointSlice)
	case *discoveryv1.EndpointSlice: // of a list, or a manifest
		s, err := c.slice(o)
		return newObject(o, s, err, present.ShareEndpointSlice), nil
	case *corev1.Pod:
		p, err := c.pod(o)
		return newObject(o, p, err, present.SharePod), nil
	}
	return nil, fmt.Errorf("unexpected object %T", obj)
}

// newObject returns an object with value as its part in the zone; nil: none.
func newObject[T any](meta metav1.Object, value *T, problem error, share func(*T) *T) *object {
	o := new(object)
	if value != nil {
		o.value = share(value)
	}
	if value == nil || problem != nil {
		o.remarks = &remarks{absent: nameOf(meta), err: problem}
	}
	return o
}

func (c converter) namespace(o *corev1.Namespace) *object {
	converted := object{remarks: &remarks{absent: nameOf(o), err: zone.CheckNamespace(c.domain, o.Name)}}
	if converted.err == nil {
		converted.value = o.Name
	}
	if o.Name == metav1.NamespaceSystem {
		converted.cluster = string(o.UID)
	}
	return &converted
}

// EndpointSlice is an EndpointSlice of the API whose endpoints have, from protobuf, only the fields that names follow
// from. The others take most of the time and the memory of decoding a streamed list; an API server without streaming sends
// whole objects. A copy by DeepCopyObject is the embedded object alone.
type EndpointSlice struct{ discoveryv1.EndpointSlice }

// Unmarshal implements the decoder of protobuf.
func (s *EndpointSlice) Unmarshal(data []byte) error {
	const endpoints, hostname, most = 2, 3, 1000 // the numbers of two fields, and the most endpoints that the API allows
	return eachField(data, func(number protowire.Number, field []byte) error {
		_, kind, tag := protowire.ConsumeTag(field)
		if number != endpoints || kind != protowire.BytesType {
			return s.EndpointSlice.Unmarshal(field)
		}
		if s.Endpoints == nil {
			s.Endpoints = make([]discoveryv1.Endpoint, 0, min(len(data)/len(field), most))
		}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{})
		message, _ := protowire.ConsumeBytes(field[tag:])
		return eachField(message, func(number protowire.Number, field []byte) error {
			if number > hostname { // after addresses and conditions
				return nil
			}
			return s.Endpoints[len(s.Endpoints)-1].Unmarshal(field)
		})
	})
}

// eachField calls f with the fields of a message in protobuf, until it returns an error.
func eachField(message []byte, f func(number protowire.Number, field []byte) error) error {
	for len(message) > 0 {
		number, _, n := protowire.ConsumeField(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(number, message[:n]); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

// TolerateUnready is the annotation that preceded publishNotReadyAddresses. The
// specification (section 2.1) still has it.
const TolerateUnready = "service.alpha.kubernetes.io/tolerate-unready-endpoints"

// service returns nil for a Service that has no valid name. The error joins the problems of
// the parts that were left out.
func (c converter) service(o *corev1.Service) (*zone.Service, error) {
	s := zone.Service{Namespace: o.Namespace, Name: o.Name, PublishNotReady: o.Spec.PublishNotReadyAddresses ||
		o.Annotations[TolerateUnready] == "true"}
	if err := s.Check(c.domain); err != nil {
		return nil, err
	}
	// When the type of a Service changes, the API keeps the fields of the previous type;
	// only those of the current type apply.
	if o.Spec.Type == corev1.ServiceTypeExternalName {
		if s.ExternalName = o.Spec.ExternalName; s.ExternalName == "" {
			return nil, errors.New("spec.externalName is missing")
		}
		return &s, nil
	}
	ips := clusterIPs(&o.Spec)
	var errs []error
	s.ClusterIPs, errs = parseAddrs("spec.clusterIPs", ips)
	if len(ips) > 0 && len(s.ClusterIPs) == 0 {
		return nil, errors.Join(errs...) // without an address it would be a headless Service
	}
	for i, p := range o.Spec.Ports {
		port, err := newPort(p.Name, p.Protocol, p.Port)
		if err != nil {
			errs = append(errs, fmt.Errorf("spec.ports[%d]: %w", i, err))
			continue
		}
		s.Ports = append(s.Ports, port)
	}
	if len(c.zone.External()) > 0 {
		var invalid []error
		s.External, invalid = external(o)
		errs = append(errs, invalid...)
	}
	return &s, errors.Join(errs...)
}

// external returns where clients outside of the cluster reach a Service, nil if they do not, and the errors of invalid
// addresses.
func external(o *corev1.Service) (*zone.External, []error) {
	e, texts := &zone.External{}, slices.Clone(o.Spec.ExternalIPs)
	for _, ingress := range o.Status.LoadBalancer.Ingress {
		if ingress.IP == "" {
			e.Host = cmp.Or(e.Host, ingress.Hostname)
		} else {
			texts = append(texts, ingress.IP)
		}
	}
	var errs []error
	if e.Addrs, errs = parseAddrs("spec.externalIPs, status.loadBalancer", texts); len(e.Addrs) > 0 {
		e.Host = "" // a name with a CNAME record has no other records
	}
	if len(e.Addrs) == 0 && e.Host == "" {
		return nil, errs
	}
	return e, errs
}

// parseAddrs returns the valid addresses in a field, and the errors of the others.
func parseAddrs(field string, texts []string) (addrs []netip.Addr, errs []error) {
	for _, text := range texts {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			errs = append(errs, fmt.Errorf("%s: %q is not an address", field, text))
			continue
		}
		addrs = append(addrs, addr.Unmap())
	}
	return addrs, errs
}

// clusterIPs returns the cluster IPs as text; a headless Service has none. API servers
// before 1.20 and many manifests set clusterIP only.
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

// slice returns nil for a slice that has no part in the zone: its endpoints are names, or
// it belongs to no Service. The error joins the problems of the parts that were left out.
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
		if p.Port == nil { // all ports: an SRV record needs a number
			continue
		}
		port, err := newPort(ptr.Deref(p.Name, ""), ptr.Deref(p.Protocol, ""), *p.Port)
		if err != nil {
			errs = append(errs, fmt.Errorf("ports[%d]: %w", i, err))
			continue
		}
		s.Ports = append(s.Ports, port)
	}
	s.Endpoints = make([]zone.Endpoint, 0, len(o.Endpoints))
	for i, ep := range o.Endpoints {
		for _, err := range c.addEndpoints(&s, ep) {
			errs = append(errs, fmt.Errorf("endpoints[%d]: %w", i, err))
		}
	}
	return &s, errors.Join(errs...)
}

// addEndpoints adds an endpoint to s for each address of ep, and returns the errors of the
// invalid ones.
func (c converter) addEndpoints(s *zone.EndpointSlice, ep discoveryv1.Endpoint) (errs []error) {
	for _, text := range ep.Addresses {
		addr, err := netip.ParseAddr(text)
		converted := zone.Endpoint{
			Addr:     addr.Unmap(),
			Hostname: ptr.Deref(ep.Hostname, ""),
			Ready:    ptr.Deref(ep.Conditions.Ready, true), // nil is unknown; clients are to treat it as ready
		}
		if err == nil {
			err = s.CheckEndpoint(c.domain, converted)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.Endpoints = append(s.Endpoints, converted)
	}
	return errs
}

// pod returns nil for a pod without an address, and for one that has terminated: its
// address may belong to another pod already.
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
