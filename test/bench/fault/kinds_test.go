// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/spec"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/world"
)

// TestKinds turns Services and slices into other kinds, with the validation and the
// defaults of the API server. After each step the server reaches the replies of package
// spec for the objects in the API.
func TestKinds(t *testing.T) {
	c := apiserver.Start(t)
	e := editor{t, newClient(t, c)}
	create(t, e.api)
	kubeconfig, err := c.Kubeconfig(c.Address(), "")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, build(t), kubeconfig)
	s.start(t)
	eventually(t, "ready", s.ready)
	for _, step := range e.steps() {
		t.Run(step.name, func(t *testing.T) {
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			w := e.world()
			zone := spec.New(w, nil, "disabled")
			for _, q := range questions(w) {
				want := ask.Normal(q, zone.Answer(q))
				eventually(t, q.String(), func() error {
					m, err := ask.One(s.address, q)
					if got := ask.Normal(q, m); err != nil || !got.Equal(want) {
						return fmt.Errorf("got %v, want %v, %w", got, want, err)
					}
					return nil
				})
			}
		})
	}
}

type step struct {
	name string
	do   func() error
}

// editor changes objects of the API.
type editor struct {
	t   *testing.T
	api kubernetes.Interface
}

func (e editor) steps() []step {
	ports := []corev1.ServicePort{{Name: "http", Port: 80}}
	service := func(name string, f func(*corev1.ServiceSpec)) func() error {
		return func() error { return e.service(name, f) }
	}
	external := func(target string) func() error {
		return service("front", func(s *corev1.ServiceSpec) {
			*s = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: target}
		})
	}
	clusterIP := func(ip string) func() error {
		return service("front", func(s *corev1.ServiceSpec) {
			*s = corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, Ports: ports}
		})
	}
	families := func(policy corev1.IPFamilyPolicy) func() error {
		return service("dual", func(s *corev1.ServiceSpec) { s.IPFamilyPolicy, s.Ports = &policy, ports })
	}
	slice := func(name string, f func(*discoveryv1.EndpointSlice)) func() error {
		return func() error { return e.slice(name, f) }
	}
	label := func(service string) func(*discoveryv1.EndpointSlice) {
		return func(s *discoveryv1.EndpointSlice) {
			s.Labels = map[string]string{discoveryv1.LabelServiceName: service}
		}
	}
	return []step{
		{"an external name", external("www.example.com")},
		{"endpoints of it, which are ignored", slice("front-1", label("front"))},
		{"a cluster IP under the same name", clusterIP("")},
		{"an external name again", external("alias.example.com.")},
		{"headless", clusterIP(corev1.ClusterIPNone)},
		{"an external name that is an address", external("192.0.2.7")},
		{"an external name in the cluster", external("dual.shop.svc.cluster.local")},

		{"one family", families(corev1.IPFamilyPolicySingleStack)},
		{"both", families(corev1.IPFamilyPolicyPreferDualStack)},
		{"both required", families(corev1.IPFamilyPolicyRequireDualStack)},
		{"one again", families(corev1.IPFamilyPolicySingleStack)},
		{"a node port", service("dual", func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort })},

		{"a slice without Service", slice("stray", func(s *discoveryv1.EndpointSlice) { s.Labels = nil })},
		{"with a Service", slice("stray", label("dual"))},
		{"without again", slice("stray", func(s *discoveryv1.EndpointSlice) { s.Labels = nil })},
		{"a slice of an unknown Service", slice("stray", label("late"))},
		{"the Service is created", service("late", func(s *corev1.ServiceSpec) { s.ClusterIP, s.Ports = corev1.ClusterIPNone, ports })},
		{"not ready", slice("stray", func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = new(false) })},
		{"tolerated", service("late", func(s *corev1.ServiceSpec) { s.PublishNotReadyAddresses = true })},
		{"a second slice, of IPv6", slice("stray6", func(s *discoveryv1.EndpointSlice) {
			label("late")(s)
			s.AddressType, s.Endpoints[0].Addresses = discoveryv1.AddressTypeIPv6, []string{"fd00:10:244::7"}
		})},
		{"the Service is deleted, its slices stay", func() error {
			return e.api.CoreV1().Services(namespace).Delete(e.t.Context(), "late", metav1.DeleteOptions{})
		}},
	}
}

// service creates or changes a Service.
func (e editor) service(name string, f func(*corev1.ServiceSpec)) error {
	services := e.api.CoreV1().Services(namespace)
	s, err := services.Get(e.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		s = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
		f(&s.Spec)
		_, err = services.Create(e.t.Context(), s, metav1.CreateOptions{})
		return err
	}
	f(&s.Spec)
	_, err = services.Update(e.t.Context(), s, metav1.UpdateOptions{})
	return err
}

// slice creates a slice of one endpoint with few fields set, or changes it.
func (e editor) slice(name string, f func(*discoveryv1.EndpointSlice)) error {
	all := e.api.DiscoveryV1().EndpointSlices(namespace)
	s, err := all.Get(e.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		s = &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: name},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Port: new(int32(8080))}, {Name: new("http"), Port: new(int32(8081))}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.7"}, Hostname: new("one")}},
		}
		f(s)
		_, err = all.Create(e.t.Context(), s, metav1.CreateOptions{})
		return err
	}
	f(s)
	_, err = all.Update(e.t.Context(), s, metav1.UpdateOptions{})
	return err
}

// world returns the objects in the API.
func (e editor) world() *world.World {
	e.t.Helper()
	ctx, all := e.t.Context(), metav1.ListOptions{}
	w := new(world.World)
	namespaces, err1 := e.api.CoreV1().Namespaces().List(ctx, all)
	services, err2 := e.api.CoreV1().Services("").List(ctx, all)
	slices, err3 := e.api.DiscoveryV1().EndpointSlices("").List(ctx, all)
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			e.t.Fatal(err)
		}
	}
	for i := range namespaces.Items {
		w.Namespaces = append(w.Namespaces, &namespaces.Items[i])
	}
	for i := range services.Items {
		w.Services = append(w.Services, &services.Items[i])
	}
	for i := range slices.Items {
		w.Slices = append(w.Slices, &slices.Items[i])
	}
	return w
}

// questions returns the questions about all names of the objects.
func questions(w *world.World) []ask.Question {
	var list []ask.Question
	add := func(name string, types ...uint16) {
		for _, qtype := range types {
			list = append(list, ask.Question{Name: name, Type: qtype, Payload: dns.DefaultMsgSize})
		}
	}
	reverse := func(ip string) {
		if name, err := dns.ReverseAddr(ip); err == nil { // an error means None
			add(name, dns.TypePTR, dns.TypeA)
		}
	}
	for _, s := range w.Services {
		for _, ip := range s.Spec.ClusterIPs {
			reverse(ip)
		}
	}
	for _, s := range w.Slices {
		for _, ep := range s.Endpoints {
			for _, ip := range ep.Addresses {
				reverse(ip)
			}
		}
	}
	for _, name := range []string{"front", "dual", "late", "stray"} {
		own := name + "." + namespace + ".svc.cluster.local."
		add(own, dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeCNAME, dns.TypeTXT)
		add("_http._tcp."+own, dns.TypeSRV, dns.TypeA)
		add("_tcp."+own, dns.TypeA)
		add("one."+own, dns.TypeA, dns.TypeAAAA)
		add("10-244-0-7."+own, dns.TypeA)
	}
	return list
}
