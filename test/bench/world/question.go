// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"strings"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
)

// Questions returns n random questions about the world: names of every form and names that are
// almost right, with the types that clients use and sometimes any other. A few fixed questions
// follow them.
func (g *Generator) Questions(n int) []ask.Question {
	list := make([]ask.Question, n)
	for i := range list {
		q := ask.Question{}
		q.Name, q.Type = g.question()
		if g.chance(0.1) {
			q.Name = g.mixCase(q.Name)
		}
		if g.chance(0.4) {
			q.Payload = pick(g, uint16(512), 1232, 1232)
		}
		q.TCP = g.chance(0.02)
		list[i] = q
	}
	return append(list, g.specialPodNames()...)
}

// specialPodNames asks for the names that addresses would have which a pod cannot have. Random
// questions hit them too rarely.
func (g *Generator) specialPodNames() (list []ask.Question) {
	suffix := "." + g.World.Services[0].Namespace + ".pod." + Zone
	for _, address := range []string{"127-0-0-1", "169-254-169-254", "224-0-0-1", "0-0-0-0", "255-255-255-255"} {
		list = append(list, ask.Question{Name: address + suffix, Type: dns.TypeA})
	}
	return list
}

func (g *Generator) question() (string, uint16) {
	service := pick(g, g.World.Services...)
	own := service.Name + "." + service.Namespace + ".svc." + Zone
	common := g.addressType()
	if g.chance(0.04) {
		common = g.anyType()
	}
	switch at := g.Float64(); {
	case at < 0.40:
		return own, common
	case at < 0.43:
		return own, dns.TypeSRV
	case at < 0.55:
		return g.portName(service) + "." + own, g.mostly(0.9, dns.TypeSRV)
	case at < 0.67:
		return g.endpointName(service) + "." + own, g.mostly(0.95, common)
	case at < 0.73:
		return g.podName(), g.mostly(0.9, common)
	case at < 0.85:
		return g.reverseName(), g.mostly(0.96, dns.TypePTR)
	case at < 0.88:
		return g.between(service), g.mostly(0.6, dns.TypeA)
	case at < 0.96:
		return g.nearMiss(service), common
	default:
		return pick(g, "www.example.com.", "alias.example.com.", "absent.example.com.", "empty.example.com.", "broken.example.com.",
			"local.", "xcluster.local.", "example.", g.label()+".example.com."), common
	}
}

func (g *Generator) addressType() uint16 {
	if g.chance(0.35) {
		return dns.TypeAAAA
	}
	return dns.TypeA
}

func (g *Generator) mostly(p float64, t uint16) uint16 {
	if g.chance(p) {
		return t
	}
	return g.anyType()
}

func (g *Generator) anyType() uint16 {
	return pick(g, dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeSRV, dns.TypePTR, dns.TypeTXT,
		dns.TypeTXT, dns.TypeCNAME, dns.TypeNS, dns.TypeSOA, dns.TypeMX,
		dns.TypeHTTPS, dns.TypeSVCB, dns.TypeCAA, dns.TypeDS, dns.TypeNAPTR, dns.TypeHINFO, uint16(65280))
}

// mixCase changes the case of letters, as resolvers do against forged replies.
func (g *Generator) mixCase(name string) string {
	b := []byte(name)
	for i, c := range b {
		if 'a' <= c && c <= 'z' && g.chance(0.5) {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

// portName returns a port of s, usually in the correct form.
func (g *Generator) portName(s *corev1.Service) string {
	port, protocol := "http", "tcp"
	if len(s.Spec.Ports) > 0 {
		p := pick(g, s.Spec.Ports...)
		port, protocol = p.Name, strings.ToLower(string(p.Protocol))
	}
	if g.chance(0.1) {
		port, protocol = pick(g, "http", "dns", "nope"), pick(g, "tcp", "udp", "sctp", "any")
	}
	if port != "" && g.chance(0.05) {
		return pick(g, "_"+port+"."+protocol, port+"._"+protocol, port+"."+protocol, "_._"+protocol, "_"+port+"._", "__"+port+"._"+protocol)
	}
	return "_" + port + "._" + protocol
}

// endpointName returns the label of an endpoint of s, ready or not.
func (g *Generator) endpointName(s *corev1.Service) string {
	list := g.World.SlicesOf(s.Namespace, s.Name)
	if len(list) == 0 || g.chance(0.1) {
		return pick(g, "web-0", "web-9", "198-18-0-1", "2001-db8--1", "_http", "_tcp")
	}
	slice := pick(g, list...)
	if len(slice.Endpoints) == 0 {
		return "web-0"
	}
	e := pick(g, slice.Endpoints...)
	name := Hostname(e, e.Addresses[0])
	if g.chance(0.03) {
		name = dashed(e.Addresses[0]) // has another name if it has a hostname
	}
	return name
}

func dashed(ip string) string { return strings.NewReplacer(".", "-", ":", "-").Replace(ip) }

func (g *Generator) podName() string {
	suffix := "." + g.anyNamespace() + ".pod." + Zone
	if len(g.World.Pods) > 0 && g.chance(0.6) {
		p := pick(g, g.World.Pods...)
		suffix = "." + p.Namespace + ".pod." + Zone
		return dashed(pick(g, p.Status.PodIPs...).IP) + suffix
	}
	label := dashed(g.endpointIP(g.chance(0.3)))
	if g.chance(0.2) {
		label = pick(g, "1-2-3", "1-2-3-256", "01-2-3-4", "1-2-3-4-5", "--1", "1--2", "p1", "fd00--g",
			"1-2-3-4-5-6-7-8", "a", "x."+label, "_a._b."+label)
	}
	return label + suffix
}

// reverseName returns the reverse name of an address of the cluster, or of another
// address.
func (g *Generator) reverseName() string {
	ip := g.endpointIP(g.chance(0.3))
	switch {
	case g.chance(0.35):
		s := pick(g, g.World.Services...)
		if len(s.Spec.ClusterIPs) > 0 && !IsHeadless(s) {
			ip = pick(g, s.Spec.ClusterIPs...)
		}
	case g.chance(0.6):
		slice := pick(g, g.World.Slices...)
		if len(slice.Endpoints) > 0 && slice.AddressType != "FQDN" {
			ip = pick(g, pick(g, slice.Endpoints...).Addresses...)
		}
	case g.chance(0.15):
		ip = pick(g, "192.0.2.3", "10.96.255.255", "fd00:10:96::ffff")
	}
	name, err := dns.ReverseAddr(ip)
	if err != nil {
		panic(fmt.Sprintf("%q: %v", ip, err))
	}
	switch {
	case g.chance(0.03):
		return "x." + name
	case g.chance(0.04):
		labels := dns.SplitDomainName(name)
		return strings.Join(labels[1+g.IntN(len(labels)-3):], ".") + "."
	}
	return name
}

// between returns a name of the zone above those of Services, or beside them.
func (g *Generator) between(s *corev1.Service) string {
	return pick(g, "", "svc.", "pod.", "dns.", "ns.dns.", "ns.dns.", "ns.dns.", "dns-version.",
		s.Namespace+".svc.", s.Namespace+".svc.", s.Namespace+".svc.", s.Namespace+".pod.",
		"kube-dns.kube-system.svc.", "_tcp."+s.Name+"."+s.Namespace+".svc.", "_udp."+s.Name+"."+s.Namespace+".svc.") + Zone
}

// nearMiss returns a name that almost exists, or an unusual form of one that exists.
func (g *Generator) nearMiss(s *corev1.Service) string {
	own := s.Name + "." + s.Namespace
	return pick(g, g.label()+"."+s.Namespace+".svc.", s.Name+"."+g.label()+".svc.", own+".", own+".svc.svc.", own+".srv.", own+".pod.",
		g.label()+"."+own+".svc.", "a.b."+own+".svc.", "a.b.c."+own+".svc.", "_a._b._c."+own+".svc.",
		"any."+s.Namespace+".svc.", "*."+s.Namespace+".svc.",
		g.label()+".", s.Namespace+".", "_"+own+".svc.", g.label()+".svc.", g.label()+".pod.",
		"x.dns-version.", "x.ns.dns.", "apex.dns.", own+".svc.cluster.local.") + Zone
}

func (g *Generator) label() string {
	return pick(g, "nope", "x", "web", "db", "tcp", "s1", "s2", "s3", "svc", "pod", "default",
		"team-0", "a-b", "a_b", strings.Repeat("l", 63))
}
