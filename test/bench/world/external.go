// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
)

// Expose gives about two thirds of the Services addresses outside of the cluster, in all forms that the API has.
func (g *Generator) Expose() {
	for i, s := range g.World.Services {
		if IsExternal(s) {
			continue
		}
		s.Status.LoadBalancer.Ingress = nil
		v4, v6 := fmt.Sprintf("203.0.113.%d", i%250), fmt.Sprintf("2001:db8:1::%x", i+1)
		ingress := func(list ...corev1.LoadBalancerIngress) { s.Status.LoadBalancer.Ingress = list }
		switch {
		case s.Name == "kube-dns", g.chance(0.2): // of the name server
			s.Spec.ExternalIPs = []string{v6, v4}
		case g.chance(0.3):
			ingress(corev1.LoadBalancerIngress{IP: v4}, corev1.LoadBalancerIngress{IP: v6})
		case g.chance(0.2):
			s.Spec.ExternalIPs = []string{v4}
			ingress(corev1.LoadBalancerIngress{IP: v4}, corev1.LoadBalancerIngress{IP: "203.0.113.251"})
		case g.chance(0.2):
			ingress(corev1.LoadBalancerIngress{Hostname: pick(g, "www.example.com", "alias.example.com", "absent.example.com")})
		case g.chance(0.1):
			ingress(corev1.LoadBalancerIngress{Hostname: "www.example.com"}, corev1.LoadBalancerIngress{IP: v4})
		}
	}
}

// ExternalQuestions returns n questions about names in a zone, and names that are almost right.
func (g *Generator) ExternalQuestions(n int, zone string) (list []ask.Question) {
	for range n {
		s := pick(g, g.World.Services...)
		own := s.Name + "." + s.Namespace + "."
		q := ask.Question{Name: own, Type: g.mostly(0.8, pick(g, dns.TypeA, dns.TypeA, dns.TypeAAAA, dns.TypeSRV))}
		switch at := g.Float64(); {
		case at < 0.15:
			q.Name, q.Type = g.portName(s)+"."+own, g.mostly(0.9, pick(g, dns.TypeSRV, dns.TypeSRV, dns.TypeA))
		case at < 0.25:
			q.Name = pick(g, "", "dns.", "ns1.dns.", "ns.dns.", "x.ns1.dns.", s.Namespace+".", g.label()+".")
			q.Type = g.anyType()
		case at < 0.35:
			q.Name = pick(g, g.label()+"."+own, "_tcp."+own, "a.b."+own, "a.b.c."+own, "_a._b._c."+own, g.label()+"."+s.Namespace+".",
				s.Name+"."+g.label()+".", own+"svc.")
		}
		q.Name += zone
		if g.chance(0.1) {
			q.Name = g.mixCase(q.Name)
		}
		if g.chance(0.4) {
			q.Payload = 1232
		}
		list = append(list, q)
	}
	return list
}
