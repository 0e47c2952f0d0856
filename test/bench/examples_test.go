// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/spec"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/world"
)

// specWorld is the cluster of the examples in the specification.
func specWorld() *world.World {
	https, tcp, port := "https", corev1.ProtocolTCP, int32(443)
	service := func(name string, ips ...string) *corev1.Service {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: corev1.ServiceSpec{ClusterIP: strings.Join(ips[:min(1, len(ips))], ""), ClusterIPs: ips,
				Ports: []corev1.ServicePort{{Name: https, Protocol: tcp, Port: port}}},
		}
	}
	external := service("foo")
	external.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "www.example.com"}
	slice := func(t discoveryv1.AddressType, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{discoveryv1.LabelServiceName: "headless"}},
			AddressType: t,
			Ports:       []discoveryv1.EndpointPort{{Name: &https, Protocol: &tcp, Port: &port}},
			Endpoints:   endpoints,
		}
	}
	pet, no := "my-pet", false
	return &world.World{
		Namespaces: []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "default"}}},
		Services: []*corev1.Service{service("kubernetes", "10.3.0.1", "2001:db8::1"),
			service("headless", "None"), service("unready", "None"), external},
		Slices: []*discoveryv1.EndpointSlice{
			slice(discoveryv1.AddressTypeIPv4,
				discoveryv1.Endpoint{Addresses: []string{"10.3.0.100"}, Hostname: &pet},
				discoveryv1.Endpoint{Addresses: []string{"10.3.0.2"}},
				discoveryv1.Endpoint{Addresses: []string{"10.3.0.3"}, Conditions: discoveryv1.EndpointConditions{Ready: &no}}),
			slice(discoveryv1.AddressTypeIPv6, discoveryv1.Endpoint{Addresses: []string{"2001:db8::2"}, Hostname: &pet}),
		},
	}
}

// TestSpecification checks package spec against the examples in the text of the
// specification.
func TestSpecification(t *testing.T) {
	zone := spec.New(specWorld(), nil, "insecure")
	const kubernetes, headless = "kubernetes.default.svc.cluster.local.", "headless.default.svc.cluster.local."
	for _, c := range []struct{ name, qtype, want string }{
		{"dns-version.cluster.local.", "TXT", `NOERROR aa | @ 28800 TXT "1.1.0"`},
		{kubernetes, "A", "NOERROR aa | @ 5 A 10.3.0.1"},
		{kubernetes, "AAAA", "NOERROR aa | @ 5 AAAA 2001:db8::1"},
		{"_https._tcp." + kubernetes, "SRV", "NOERROR aa | @ 5 SRV 443 " + kubernetes + " | + " +
			kubernetes + " 5 A 10.3.0.1 | + " + kubernetes + " 5 AAAA 2001:db8::1"},
		{"1.0.3.10.in-addr.arpa.", "PTR", "NOERROR aa | @ 5 PTR " + kubernetes},
		{"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.", "PTR", "NOERROR aa | @ 5 PTR " + kubernetes},
		{headless, "A", "NOERROR aa | @ 5 A 10.3.0.100 | @ 5 A 10.3.0.2"},
		{headless, "AAAA", "NOERROR aa | @ 5 AAAA 2001:db8::2"},
		{"My-Pet." + headless, "A", "NOERROR aa | @ 5 A 10.3.0.100"},
		{"my-pet." + headless, "AAAA", "NOERROR aa | @ 5 AAAA 2001:db8::2"},
		{"_https._tcp." + headless, "SRV", "NOERROR aa | @ 5 SRV 443 10-3-0-2." + headless + " | @ 5 SRV 443 my-pet." + headless +
			" | + 10-3-0-2." + headless + " 5 A 10.3.0.2 | + my-pet." + headless +
			" 5 A 10.3.0.100 | + my-pet." + headless + " 5 AAAA 2001:db8::2"},
		{"100.0.3.10.in-addr.arpa.", "PTR", "NOERROR aa | @ 5 PTR my-pet." + headless},
		{"3.0.3.10.in-addr.arpa.", "PTR", "NXDOMAIN SOA of arpa."},
		{"unready.default.svc.cluster.local.", "A", "NXDOMAIN aa SOA of cluster.local."},
		{"foo.default.svc.cluster.local.", "CNAME", "NOERROR aa | @ 5 CNAME www.example.com."},
		{"foo.default.svc.cluster.local.", "A", "NOERROR aa | @ 5 CNAME www.example.com. | www.example.com. - A 203.0.113.147"},
		// RFC 8020: a name exists if a name below it does. Reverse zones are not those of the cluster.
		{"_tcp." + kubernetes, "A", "NOERROR aa SOA of cluster.local."},
		{"0.3.10.in-addr.arpa.", "PTR", "NXDOMAIN SOA of arpa."},
	} {
		q := ask.Question{Name: c.name, Type: dns.StringToType[c.qtype]}
		got := strings.Join(strings.Fields(strings.ReplaceAll(ask.Normal(q, zone.Answer(q)).String(), "\n", " | ")), " ")
		if got != c.want {
			t.Errorf("%v:\n  got  %v\n  want %v", q, got, c.want)
		}
	}
}
