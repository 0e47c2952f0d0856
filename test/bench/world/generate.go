// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Zone is the cluster domain of every world.
const Zone = "cluster.local."

// Generator creates and changes a world.
type Generator struct {
	*rand.Rand
	World World

	addresses int // assigned so far
	sequence  int // objects created so far
}

// FQDNEndpoint is the endpoint of slices of type FQDN; a world has a few.
const FQDNEndpoint = "host.example"

// New returns a generator of a world of about n services. The addresses of the server
// itself are endpoints of the Service kube-dns, as in a cluster.
func New(seed uint64, n int, self []netip.Addr) *Generator {
	g := &Generator{Rand: rand.New(rand.NewPCG(seed, 0))}
	for _, name := range []string{"default", "kube-system", "svc", "pod", "tcp", "a", "1-2-3-4", "web"} {
		g.namespace(name)
	}
	for i := range n / 10 {
		g.namespace(fmt.Sprintf("team-%d", i))
	}
	g.dns(self)
	for range n {
		g.service()
	}
	for range n / 8 {
		g.stray()
	}
	for range n / 2 {
		g.pod()
	}
	return g
}

func (g *Generator) chance(p float64) bool { return g.Float64() < p }

func pick[T any](g *Generator, values ...T) T { return values[g.IntN(len(values))] }

func (g *Generator) namespace(name string) {
	g.World.Namespaces = append(g.World.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

func (g *Generator) anyNamespace() string { return pick(g, g.World.Namespaces...).Name }

// clusterIP returns a new address.
func (g *Generator) clusterIP(six bool) string {
	g.addresses++
	if six {
		return fmt.Sprintf("fd00:10:96::%x", g.addresses)
	}
	return fmt.Sprintf("10.96.%d.%d", g.addresses>>8, g.addresses&255)
}

// endpointIP returns one of a few hundred addresses: services share pods.
func (g *Generator) endpointIP(six bool) string {
	n := g.IntN(800)
	switch {
	case !six:
		return fmt.Sprintf("198.18.%d.%d", n>>8, n&255)
	case n%50 == 0:
		return fmt.Sprintf("2001:db8:%x::", n+1) // its label would end in a dash
	default:
		return fmt.Sprintf("2001:db8::%x", n+1)
	}
}

// dns adds the Service of the server itself.
func (g *Generator) dns(self []netip.Addr) {
	s := g.newService("kube-system", "kube-dns")
	s.Spec.Ports = []corev1.ServicePort{{Name: "dns", Protocol: "UDP", Port: 53},
		{Name: "dns-tcp", Protocol: "TCP", Port: 53}, {Name: "metrics", Protocol: "TCP", Port: 9153}}
	g.dualStack(s)
	for _, a := range self {
		slice := g.slice(s, a.Is6())
		slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{a.String()}}}
	}
}

func (g *Generator) newService(namespace, name string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}}
	g.World.Services = append(g.World.Services, s)
	return s
}

func (g *Generator) service() {
	namespace, name := g.anyNamespace(), g.serviceName()
	if g.World.Service(namespace, name) != nil {
		g.sequence++
		name = fmt.Sprintf("s%d", g.sequence)
	}
	s := g.newService(namespace, name)
	switch {
	case g.chance(0.18):
		g.externalName(s)
		return
	case g.chance(0.42):
		s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
	case g.chance(0.25):
		g.dualStack(s)
	default:
		s.Spec.ClusterIPs = []string{g.clusterIP(g.chance(0.2))}
	}
	if !IsHeadless(s) {
		s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
		s.Spec.Type = pick(g, corev1.ServiceTypeClusterIP, corev1.ServiceTypeClusterIP,
			corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer)
	}
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.7"}, {Hostname: "lb.example"}}
	}
	if g.chance(0.7) {
		s.Spec.Selector = map[string]string{"app": name}
	}
	switch {
	case g.chance(0.06):
		s.Spec.PublishNotReadyAddresses = true
	case g.chance(0.02):
		s.Annotations = map[string]string{"service.alpha.kubernetes.io/tolerate-unready-endpoints": "true"}
	}
	s.Spec.Ports = g.ports(IsHeadless(s))
	for range pick(g, 0, 1, 1, 1, 2, 3) {
		g.fill(g.slice(s, g.chance(0.25)))
	}
	if g.chance(0.02) {
		slice := g.slice(s, false)
		slice.AddressType = discoveryv1.AddressTypeFQDN
		slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{FQDNEndpoint}}}
	}
}

// serviceName returns a label of RFC 1035, usually a unique one.
func (g *Generator) serviceName() string {
	if g.chance(0.6) {
		g.sequence++
		return fmt.Sprintf("s%d", g.sequence)
	}
	return pick(g, "web", "db", "cache", "svc", "pod", "tcp", "http", "dns", "search", "any", "cluster", "local", "kubernetes")
}

func (g *Generator) dualStack(s *corev1.Service) {
	s.Spec.ClusterIPs = []string{g.clusterIP(false), g.clusterIP(true)}
	if g.chance(0.3) {
		slices.Reverse(s.Spec.ClusterIPs)
	}
	s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
}

// ports returns named ports, one unnamed port, or none, which only a headless Service may
// have.
func (g *Generator) ports(headless bool) []corev1.ServicePort {
	if headless && g.chance(0.1) {
		return nil
	}
	if g.chance(0.12) {
		return []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}
	}
	list := []corev1.ServicePort{
		{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80},
		{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443},
		{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53},
		{Name: "dns-tcp", Protocol: corev1.ProtocolTCP, Port: 53},
		{Name: "sig", Protocol: corev1.ProtocolSCTP, Port: 7777},
		{Name: "tcp", Protocol: corev1.ProtocolTCP, Port: 1},
	}
	g.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:1+g.IntN(3)]
}

// targets are the targets of ExternalNames except Services: names that exist, do not
// exist or fail, and an address.
var targets = []string{
	"www.example.com", "www.example.com.", "alias.example.com", "absent.example.com", "empty.example.com", "broken.example.com",
	"missing.default.svc.cluster.local", "svc.cluster.local", "192.0.2.99", "www.example.com", "www.example.com", "xcluster.local",
}

func (g *Generator) externalName(s *corev1.Service) {
	s.Spec.Type = corev1.ServiceTypeExternalName
	s.Spec.ExternalName = pick(g, targets...)
	switch t := pick(g, g.World.Services...); { // a service, perhaps one of this kind
	case g.chance(0.08):
		t = s
		fallthrough
	case g.chance(0.4):
		s.Spec.ExternalName = t.Name + "." + t.Namespace + ".svc.cluster.local"
	}
	if g.chance(0.3) {
		s.Spec.Ports = g.ports(false)
	}
}

func (g *Generator) pod() {
	g.sequence++
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: g.anyNamespace(), Name: fmt.Sprintf("p%d", g.sequence)}}
	p.Status.Phase = pick(g, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodPending,
		corev1.PodSucceeded, corev1.PodFailed)
	p.Status.PodIPs = []corev1.PodIP{{IP: g.endpointIP(false)}}
	if g.chance(0.4) {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: g.endpointIP(true)})
	}
	p.Status.PodIP = p.Status.PodIPs[0].IP
	g.World.Pods = append(g.World.Pods, p)
}
