// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"slices"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
)

// Mark adds an object of each kind that only round n has. A server whose replies show
// them has processed all earlier changes: each kind has its own watch, in order.
func (g *Generator) Mark(n int) (objects []kubeapi.Object, questions []ask.Question) {
	w := &g.World
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("round-%d", n)}}
	w.Namespaces = append(w.Namespaces, namespace)

	w.Services = slices.DeleteFunc(w.Services, func(s *corev1.Service) bool { return s.Name == "mark" || s.Name == "mark-headless" })
	w.Slices = slices.DeleteFunc(w.Slices, func(s *discoveryv1.EndpointSlice) bool { return s.Name == "mark" })
	w.Pods = slices.DeleteFunc(w.Pods, func(p *corev1.Pod) bool { return p.Name == "mark" })
	service := g.newService("default", "mark")
	service.Spec.ClusterIP = fmt.Sprintf("10.97.0.%d", n+1)
	service.Spec.ClusterIPs = []string{service.Spec.ClusterIP}
	headless := g.newService("default", "mark-headless")
	headless.Spec.ClusterIP, headless.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
	slice := g.slice(headless, false)
	slice.Name = "mark"
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{fmt.Sprintf("10.97.1.%d", n+1)}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mark"}}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.PodIP = fmt.Sprintf("10.97.2.%d", n+1)
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	w.Pods = append(w.Pods, pod)

	objects = []kubeapi.Object{namespace, service, headless, slice, pod}
	for _, name := range []string{namespace.Name + ".svc.", "mark.default.svc.",
		"mark-headless.default.svc.", dashed(pod.Status.PodIP) + ".default.pod."} {
		questions = append(questions, ask.Question{Name: name + Zone, Type: dns.TypeA})
	}
	return objects, questions
}
