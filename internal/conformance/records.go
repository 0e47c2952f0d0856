// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

// Cluster has the objects whose names a cluster DNS server serves.
type Cluster struct {
	Domain     string // such as cluster.local
	Namespaces []corev1.Namespace
	Services   []corev1.Service
	Slices     []discoveryv1.EndpointSlice
}

// question is a query for a name of the cluster, and the reply that the specification requires.
type question struct {
	rule  string
	name  string
	qtype uint16
	rcode int
	want  []string // the data of all records of the type, see dataOf
	also  bool     // other records are permitted

	failure string // what is wrong with the reply
}

// records are the questions by name and type.
type records struct {
	zone      string // the cluster domain, with a final dot
	questions map[dns.Question]*question
}

// questions returns a question for each name and type of the cluster, and for names that must not exist.
func (c Cluster) questions() []*question {
	r := records{zone: dns.CanonicalName(c.Domain), questions: map[dns.Question]*question{}}
	isNamespace := map[string]bool{}
	for _, n := range c.Namespaces {
		isNamespace[n.Name] = true
		r.add("empty-non-terminal", n.Name+".svc."+r.zone, dns.TypeA)
		r.absent(n.Name + ".svc." + r.zone)
	}
	r.add("schema-version", "dns-version."+r.zone, dns.TypeTXT)
	r.add("empty-non-terminal", "svc."+r.zone, dns.TypeAAAA)
	r.absent("svc." + r.zone)
	r.absent(r.zone)
	bySlice := map[string][]discoveryv1.EndpointSlice{}
	for _, s := range c.Slices {
		key := s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]
		bySlice[key] = append(bySlice[key], s)
	}
	clusterIPs := map[string]bool{}
	for _, s := range c.Services {
		own := s.Name + "." + s.Namespace + ".svc." + r.zone
		switch {
		case !isNamespace[s.Namespace]:
		case s.Spec.Type == corev1.ServiceTypeExternalName:
			// The record of section 2.5. The specification does not say what an address as the name means.
			if _, err := netip.ParseAddr(s.Spec.ExternalName); err != nil {
				r.add("external-name", own, dns.TypeCNAME, dns.CanonicalName(s.Spec.ExternalName))
			}
		case s.Spec.ClusterIP == corev1.ClusterIPNone:
			r.headless(own, readyEndpoints(s, bySlice[s.Namespace+"/"+s.Name]))
		default:
			r.clusterIP(own, s)
			for _, ip := range s.Spec.ClusterIPs {
				clusterIPs[reverseName(ip)] = true
			}
		}
	}
	var list []*question
	for _, q := range r.questions {
		// The reverse name of a cluster IP is that of its Service alone, also if the address is an endpoint.
		if q.rule != "headless-reverse" || !clusterIPs[q.name] {
			list = append(list, q)
		}
	}
	return list
}

func (r records) add(rule, name string, qtype uint16, data ...string) *question {
	key := dns.Question{Name: name, Qtype: qtype}
	if r.questions[key] == nil {
		r.questions[key] = &question{rule: rule, name: name, qtype: qtype}
	}
	q := r.questions[key]
	for _, d := range data {
		if !slices.Contains(q.want, d) {
			q.want = append(q.want, d)
		}
	}
	return q
}

// absent adds a question for a name below parent that does not exist.
func (r records) absent(parent string) {
	r.add("absent-name", "absent-name-of-dnsconfigurer."+parent, dns.TypeA).rcode = dns.RcodeNameError
}

func (r records) address(rule, name, ip string) {
	a, err := netip.ParseAddr(ip)
	switch {
	case err != nil:
	case a.Is4():
		r.add(rule, name, dns.TypeA, a.String())
	default:
		r.add(rule, name, dns.TypeAAAA, a.String())
	}
}

// otherFamily adds a question for the address family that name lacks.
func (r records) otherFamily(name string) {
	for _, t := range []uint16{dns.TypeA, dns.TypeAAAA} {
		r.add("other-family", name, t)
	}
}

func reverseName(ip string) string {
	name, _ := dns.ReverseAddr(ip) // "": not an address
	return name
}

// clusterIP adds the records of section 2.3.
func (r records) clusterIP(own string, s corev1.Service) {
	for _, ip := range s.Spec.ClusterIPs {
		r.address("service-address", own, ip)
		r.add("service-reverse", reverseName(ip), dns.TypePTR, own)
	}
	r.otherFamily(own)
	for _, p := range s.Spec.Ports {
		r.port("service-port", own, p.Name, string(p.Protocol), p.Port, own)
	}
	r.absent(own)
}

// port adds the record of a port. Unnamed ports have none.
func (r records) port(rule, own, port, protocol string, number int32, target string) {
	if port == "" {
		return
	}
	protocol = "_" + strings.ToLower(protocol) + "." + own
	r.add(rule, "_"+port+"."+protocol, dns.TypeSRV, fmt.Sprint(number, " ", target))
	r.add("empty-non-terminal", protocol, dns.TypeA)
}

// endpoint is an address of a ready endpoint.
type endpoint struct {
	ip, hostname string // hostname "": the server chooses one, "(IP)" in the data of records
	ports        []discoveryv1.EndpointPort
}

func readyEndpoints(s corev1.Service, list []discoveryv1.EndpointSlice) (all []endpoint) {
	always := s.Spec.PublishNotReadyAddresses || s.Annotations["service.alpha.kubernetes.io/tolerate-unready-endpoints"] == "true"
	for _, slice := range list {
		for _, e := range slice.Endpoints {
			if slice.AddressType == discoveryv1.AddressTypeFQDN || !always && !ptr.Deref(e.Conditions.Ready, true) {
				continue
			}
			for _, ip := range e.Addresses {
				all = append(all, endpoint{ip, ptr.Deref(e.Hostname, ""), slice.Ports})
			}
		}
	}
	return all
}

// headless adds the records of section 2.4. The port is that of the endpoint, as all servers have it.
func (r records) headless(own string, endpoints []endpoint) {
	for _, e := range endpoints {
		r.address("headless-address", own, e.ip)
		target := "(" + e.ip + ")." + own
		if e.hostname != "" {
			target = strings.ToLower(e.hostname) + "." + own
			r.address("endpoint-hostname", target, e.ip)
		}
		r.add("headless-reverse", reverseName(e.ip), dns.TypePTR, target).also = true // the address may be that of others
		for _, p := range e.ports {
			protocol := string(ptr.Deref(p.Protocol, corev1.ProtocolTCP))
			r.port("headless-port", own, ptr.Deref(p.Name, ""), protocol, ptr.Deref(p.Port, 0), target)
		}
	}
	if len(endpoints) == 0 {
		r.add("headless-empty", own, dns.TypeA).rcode = dns.RcodeNameError
		return
	}
	r.otherFamily(own)
	r.absent(own)
}
