// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/world"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

const namespace = "shop"

// create creates the objects in their first states.
func create(t *testing.T, api kubernetes.Interface, registers ...*register) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := api.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	for _, r := range registers {
		state, w := r.next()
		r.accepted(state)
		for _, s := range w.Services {
			must.Get(api.CoreV1().Services(namespace).Create(t.Context(), s, metav1.CreateOptions{}))(t)
		}
		for _, s := range w.Slices {
			must.Get(api.DiscoveryV1().EndpointSlices(namespace).Create(t.Context(), s, metav1.CreateOptions{}))(t)
		}
	}
}

func newWorld(services []*corev1.Service, slices ...*discoveryv1.EndpointSlice) *world.World {
	return &world.World{Namespaces: []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: namespace}}},
		Services: services, Slices: slices}
}

// newService returns a Service with one port; ip is its address or None.
func newService(name, ip string, port int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{
			ClusterIP: ip, ClusterIPs: []string{ip}, Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: port}},
		},
	}
}

// newSlice returns a slice of ready endpoints, the first with a hostname.
func newSlice(name, service string, ips ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(8080))}},
	}
	for _, ip := range ips {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}})
	}
	s.Endpoints[0].Hostname = new(service + "-0")
	return s
}

// address returns an address that is unique for state and n.
func address(state, n int) string { return fmt.Sprintf("10.%d.%d.%d", n, state>>8&255, state&255) }

func question(name string, qtype uint16) ask.Question {
	return ask.Question{Name: name + "." + namespace + ".svc.cluster.local.", Type: qtype, Payload: dns.DefaultMsgSize}
}

// newHeadless returns a Service with n endpoints that all change with each state.
func newHeadless(api kubernetes.Interface, name string, n int) *register {
	return &register{
		name: name,
		questions: []ask.Question{question(name, dns.TypeA), question(name+"-0."+name, dns.TypeA),
			question("_http._tcp."+name, dns.TypeSRV)},
		world: func(state int) *world.World {
			ips := make([]string, n)
			for i := range ips {
				ips[i] = address(state, i)
			}
			return newWorld([]*corev1.Service{newService(name, corev1.ClusterIPNone, 80)}, newSlice(name+"-1", name, ips...))
		},
		put: func(ctx context.Context, w *world.World) error {
			_, err := api.DiscoveryV1().EndpointSlices(namespace).Update(ctx, w.Slices[0], metav1.UpdateOptions{})
			return err
		},
	}
}

// newPorts returns a Service whose port changes.
func newPorts(api kubernetes.Interface, name, ip string) *register {
	return &register{
		name:      name,
		questions: []ask.Question{question(name, dns.TypeA), question("_http._tcp."+name, dns.TypeSRV)},
		world: func(state int) *world.World {
			return newWorld([]*corev1.Service{newService(name, ip, int32(1+state))})
		},
		put: func(ctx context.Context, w *world.World) error {
			_, err := api.CoreV1().Services(namespace).Update(ctx, w.Services[0], metav1.UpdateOptions{})
			return err
		},
	}
}

// newFleeting returns a Service that exists in every other state.
func newFleeting(api kubernetes.Interface, name string) *register {
	return &register{
		name:      name,
		questions: []ask.Question{question(name, dns.TypeA), question(name+"-0."+name, dns.TypeA)},
		world: func(state int) *world.World {
			var services []*corev1.Service
			if state%2 == 0 {
				services = append(services, newService(name, corev1.ClusterIPNone, 80))
			}
			return newWorld(services, newSlice(name+"-1", name, "10.255.0.1"))
		},
		put: func(ctx context.Context, w *world.World) error {
			services := api.CoreV1().Services(namespace)
			if len(w.Services) > 0 {
				if _, err := services.Create(ctx, w.Services[0], metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
					return err
				}
			} else if err := services.Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
				return err
			}
			return nil // a repeated attempt
		},
	}
}
