// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

var clusterLocal = fqdn.Join(fqdn.Root, "cluster", "local")

func parse[T any](t testing.TB, text string) *T {
	t.Helper()
	var o T
	if err := yaml.UnmarshalStrict([]byte(text), &o); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return &o
}

func addrs(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, s := range texts {
		list = append(list, netip.MustParseAddr(s))
	}
	return list
}

func port(name, protocol string, number uint16) zone.Port {
	return zone.Port{Name: name, Protocol: protocol, Number: number}
}

func endpoint(addr, hostname string, ready bool) zone.Endpoint {
	return zone.Endpoint{Addr: netip.MustParseAddr(addr), Hostname: hostname, Ready: ready}
}

func check[T any](t *testing.T, name string, got, want *T, err error, problem string) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
	if problem == "" && err != nil || !strings.Contains(fmt.Sprint(err), problem) {
		t.Errorf("%s: error %v, want %q", name, err, problem)
	}
}

const head = "metadata: {namespace: shop, name: web}\n"

func TestConvert_Service(t *testing.T) {
	web := zone.Service{Namespace: "shop", Name: "web"}
	with := func(change func(*zone.Service)) *zone.Service { s := web; change(&s); return &s }
	tests := []struct {
		clause, spec string
		want         *zone.Service
		problem      string
	}{
		{"spec.clusterIPs, of both families", "{clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, 'fd00::1']}",
			with(func(s *zone.Service) { s.ClusterIPs = addrs("10.96.0.1", "fd00::1") }), ""},
		{"clusterIP alone, as before 1.20", "{clusterIP: 10.96.0.1}",
			with(func(s *zone.Service) { s.ClusterIPs = addrs("10.96.0.1") }), ""},
		{"None is headless", "{clusterIP: None, clusterIPs: [None]}", &web, ""},
		{"None in the old field", "{clusterIP: None}", &web, ""},
		{"an IPv4-mapped IPv6 address", "{clusterIP: '::ffff:10.96.0.1'}",
			with(func(s *zone.Service) { s.ClusterIPs = addrs("10.96.0.1") }), ""},
		{"one invalid address of two", "{clusterIPs: [10.96.0.1, x]}",
			with(func(s *zone.Service) { s.ClusterIPs = addrs("10.96.0.1") }), `spec.clusterIPs: "x" is not an address`},
		{"no valid address is not headless", "{clusterIPs: [010.96.0.1]}", nil, `"010.96.0.1" is not an address`},
		{"an address with a zone", "{clusterIPs: ['fe80::1%eth0']}", nil, "not an address"},
		{"ports; TCP is the default protocol",
			"{clusterIP: None, ports: [{name: http, port: 80}, {name: dns, port: 53, protocol: UDP}, {port: 9, protocol: SCTP}]}",
			with(func(s *zone.Service) {
				s.Ports = []zone.Port{port("http", "tcp", 80), port("dns", "udp", 53), port("", "sctp", 9)}
			}), ""},
		{"a port out of range", "{clusterIP: None, ports: [{name: a, port: 65535}, {name: b, port: 65536}]}",
			with(func(s *zone.Service) { s.Ports = []zone.Port{port("a", "tcp", 65535)} }), "spec.ports[1]: port 65536"},
		{"port 0 and an unknown protocol",
			"{clusterIP: None, ports: [{name: a}, {name: b, port: 1, protocol: ICMP}]}", &web, `spec.ports[1]: protocol "ICMP"`},
		{"type ExternalName", "{type: ExternalName, externalName: WWW.Example.com.}",
			with(func(s *zone.Service) { s.ExternalName = "WWW.Example.com." }), ""},
		{"ExternalName with the cluster IP of its previous type", "{type: ExternalName, externalName: a.b, clusterIP: 10.96.0.1}",
			with(func(s *zone.Service) { s.ExternalName = "a.b" }), ""},
		{"ClusterIP with the name of its previous type", "{type: ClusterIP, externalName: a.b, clusterIP: 10.96.0.1}",
			with(func(s *zone.Service) { s.ClusterIPs = addrs("10.96.0.1") }), ""},
		{"ExternalName without a name is not headless", "{type: ExternalName}", nil, "spec.externalName is missing"},
		{"NodePort and LoadBalancer have cluster IPs", "{type: LoadBalancer, clusterIP: 10.96.0.1}",
			with(func(s *zone.Service) { s.ClusterIPs = addrs("10.96.0.1") }), ""},
		{"publishNotReadyAddresses", "{clusterIP: None, publishNotReadyAddresses: true}",
			with(func(s *zone.Service) { s.PublishNotReady = true }), ""},
	}
	old := parse[corev1.Service](t, head+"spec: {clusterIP: None}")
	old.Annotations = map[string]string{"service.alpha.kubernetes.io/tolerate-unready-endpoints": "true"}
	if got, err := (converter{domain: clusterLocal}).service(old); err != nil || !got.PublishNotReady {
		t.Errorf("2.1, the annotation: %+v, %v", got, err)
	}
	for _, tt := range tests {
		got, err := converter{domain: clusterLocal}.service(parse[corev1.Service](t, head+"spec: "+tt.spec))
		check(t, tt.clause, got, tt.want, err, tt.problem)
	}
	for n, problem := range map[int]string{63: "", 64: "metadata.name"} {
		long := strings.Repeat("a", n)
		got, err := converter{domain: clusterLocal}.service(
			parse[corev1.Service](t, "metadata: {namespace: shop, name: "+long+"}\nspec: {clusterIP: None}"))
		if (got != nil) != (problem == "") {
			t.Errorf("a name of %d bytes gives %v", n, got)
		}
		check(t, fmt.Sprint("a name of bytes ", n), got, got, err, problem)
	}
}

func TestConvert_EndpointSlice(t *testing.T) {
	web := zone.EndpointSlice{Namespace: "shop", Name: "web-1", Service: "web"}
	with := func(endpoints ...zone.Endpoint) *zone.EndpointSlice { s := web; s.Endpoints = endpoints; return &s }
	ports := func(ports ...zone.Port) *zone.EndpointSlice { s := web; s.Ports = ports; return &s }
	tests := []struct {
		clause, text string
		want         *zone.EndpointSlice
		problem      string
	}{
		{"ready nil is ready",
			"endpoints: [{addresses: [10.0.0.1]}, {addresses: [10.0.0.2], conditions: {ready: " +
				"true}}, {addresses: [10.0.0.3], conditions: {ready: false}}]",
			with(endpoint("10.0.0.1", "", true), endpoint("10.0.0.2", "", true), endpoint("10.0.0.3", "", false)), ""},
		{"serving and terminating are ignored",
			"endpoints: [{addresses: [10.0.0.1], conditions: {ready: false, serving: true, terminating: true}}]",
			with(endpoint("10.0.0.1", "", false)), ""},
		{"hostname", "endpoints: [{addresses: [10.0.0.1], hostname: db-0}]", with(endpoint("10.0.0.1", "db-0", true)), ""},
		{"all addresses", "endpoints: [{addresses: [10.0.0.1, 10.0.0.2]}]",
			with(endpoint("10.0.0.1", "", true), endpoint("10.0.0.2", "", true)), ""},
		{"IPv6", "addressType: IPv6\nendpoints: [{addresses: ['fd00::1']}]", with(endpoint("fd00::1", "", true)), ""},
		{"an IPv4-mapped IPv6 address", "addressType: IPv6\nendpoints: [{addresses: ['::ffff:10.0.0.1']}]",
			with(endpoint("10.0.0.1", "", true)), ""},
		{"invalid addresses are left out", "endpoints: [{addresses: [x, 10.0.0.1]}, {addresses: ['fe80::1%eth0']}]",
			with(endpoint("10.0.0.1", "", true)), "endpoints[0]"},
		{"endpoints with invalid hostnames are left out",
			"endpoints: [{addresses: [10.0.0.2], hostname: DB}, {addresses: [10.0.0.1]}]",
			with(endpoint("10.0.0.1", "", true)), `endpoints[0]: hostname "DB"`},
		{"address type FQDN", "addressType: FQDN\nendpoints: [{addresses: [a.example]}]", nil, ""},
		{"ports; nil name and protocol", "ports: [{port: 80}, {name: sql, port: 5432, protocol: TCP}]",
			ports(port("", "tcp", 80), port("sql", "tcp", 5432)), ""},
		{"a nil port is all ports", "ports: [{name: any}]", &web, ""},
	}
	const labelled = "metadata: {namespace: shop, name: web-1, labels: {kubernetes.io/service-name: web}}\n"
	for _, tt := range tests {
		got, err := converter{domain: clusterLocal}.slice(parse[discoveryv1.EndpointSlice](t, labelled+tt.text))
		check(t, tt.clause, got, tt.want, err, tt.problem)
	}
	got, err := converter{domain: clusterLocal}.slice(parse[discoveryv1.EndpointSlice](t, head+"endpoints: [{addresses: [10.0.0.1]}]"))
	check(t, "without the label", got, nil, err, "")
}

func TestConvert_Pod(t *testing.T) {
	web := func(ips ...string) *zone.Pod { return &zone.Pod{Namespace: "shop", Name: "web", Addrs: addrs(ips...)} }
	for _, tt := range []struct {
		clause, status string
		want           *zone.Pod
		problem        string
	}{
		{"podIPs", "{podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}, {ip: 'fd00::1'}]}", web("10.0.0.1", "fd00::1"), ""},
		{"podIP alone", "{podIP: 10.0.0.1}", web("10.0.0.1"), ""},
		{"none yet", "{phase: Pending}", nil, ""},
		{"succeeded", "{phase: Succeeded, podIP: 10.0.0.1}", nil, ""},
		{"failed", "{phase: Failed, podIP: 10.0.0.1}", nil, ""},
		{"the same address twice", "{podIPs: [{ip: 10.0.0.1}, {ip: '::ffff:10.0.0.1'}]}", web("10.0.0.1"), ""},
		{"invalid address", "{podIP: x}", nil, `"x" is not an address`},
	} {
		got, err := converter{domain: clusterLocal}.pod(parse[corev1.Pod](t, head+"status: "+tt.status))
		check(t, tt.clause, got, tt.want, err, tt.problem)
	}
}

// TestConvert_Attributes covers the fields of an object that are not in the zone.
func TestConvert_Attributes(t *testing.T) {
	c := converter{domain: clusterLocal}
	o, err := c.convert(parse[discoveryv1.EndpointSlice](t,
		`metadata: {namespace: shop, name: web-1, labels: {kubernetes.io/service-name: web},
  annotations: {endpoints.kubernetes.io/last-change-trigger-time: "2026-01-02T03:04:05.5Z"}}`))
	if err != nil || o.changed.UTC().String() != "2026-01-02 03:04:05.5 +0000 UTC" || o.put == nil || o.String() != "shop/web-1" {
		t.Errorf("got %+v, %v", o, err)
	}
	o, err = c.convert(parse[corev1.Namespace](t, "metadata: {name: kube-system, uid: u1}"))
	if err != nil || o.cluster != "u1" || o.put == nil {
		t.Errorf("got %+v, %v", o, err)
	}
	o, err = c.convert(parse[corev1.Namespace](t, "metadata: {name: shop, uid: u2}"))
	if err != nil || o.cluster != "" || o.put == nil {
		t.Errorf("got %+v, %v", o, err)
	}
	if o, err := c.convert(parse[corev1.Namespace](t, "metadata: {name: a.b}")); err != nil || o.put != nil || o.problem == nil {
		t.Errorf("got %+v, %v", o, err)
	}
	if _, err := c.convert(&corev1.Node{}); err == nil {
		t.Error("a node was converted")
	}
}
