// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// hostilePods returns n pods of a tenant.
func hostilePods(n int, label func(i int) map[string]string) (list []corev1.Pod) {
	for i := range n {
		p := corev1.Pod{}
		p.Namespace, p.Name, p.Labels = "shop", fmt.Sprint("p", i), label(i)
		p.Spec.DNSPolicy = corev1.DNSClusterFirst
		list = append(list, p)
	}
	return list
}

// addDNS adds a cluster DNS with one endpoint.
func addDNS(s *Snapshot) {
	d := corev1.Service{}
	d.Namespace, d.Name = "kube-system", "kube-dns"
	d.Spec.ClusterIP, d.Spec.ClusterIPs = "10.96.0.10", []string{"10.96.0.10"}
	d.Spec.Selector = map[string]string{"k8s-app": "kube-dns"}
	d.Spec.Ports = []corev1.ServicePort{{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}}
	p := corev1.Pod{}
	p.Namespace, p.Name, p.Labels = "kube-system", "dns", d.Spec.Selector
	name, port, udp := "dns", int32(53), corev1.ProtocolUDP
	e := discoveryv1.EndpointSlice{}
	e.Namespace, e.Labels = "kube-system", map[string]string{discoveryv1.LabelServiceName: "kube-dns"}
	e.Ports = []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &udp}}
	e.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, TargetRef: &corev1.ObjectReference{Name: "dns"}}}
	s.Services, s.Pods, s.Slices = append(s.Services, d), append(s.Pods, p), append(s.Slices, e)
}

// hostileNetworks returns n NetworkPolicies without egress rules.
func hostileNetworks(n int, selector func(i int) metav1.LabelSelector) (list []networkingv1.NetworkPolicy) {
	for i := range n {
		p := networkingv1.NetworkPolicy{}
		p.Namespace, p.Name = "shop", fmt.Sprint("n", i)
		p.Spec.PodSelector = selector(i)
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
		list = append(list, p)
	}
	return list
}

// hostileServices returns n Services that change sets.
func hostileServices(n int, change func(i int, s *corev1.Service)) (list []corev1.Service) {
	for i := range n {
		s := corev1.Service{}
		s.Namespace, s.Name = "shop", fmt.Sprint("s", i)
		change(i, &s)
		list = append(list, s)
	}
	return list
}

func sameLabels(int) map[string]string { return map[string]string{"app": "a"} }

func ownLabels(i int) map[string]string { return map[string]string{"app": "a", "n": fmt.Sprint(i)} }

// checkHostile runs the checks named, and expects as many findings with each code.
func checkHostile(t *testing.T, s *Snapshot, want map[string]int) {
	t.Helper()
	addDNS(s)
	v := newView(s)
	for _, c := range Checks() {
		count, ok := want[c.Code]
		if !ok {
			continue
		}
		hits, lines := c.find(v), 0
		for _, h := range hits {
			lines = max(lines, len(h.evidence))
		}
		if len(hits) != count || lines > excerptEntries {
			t.Errorf("%s: %d findings, want %d, with at most %d lines", c.Code, len(hits), count, lines)
		}
	}
}

// excerptEntries is the number of lines of evidence that a finding has at most.
const excerptEntries = maxLines + 2

// TestHostile_Services: 1,000 Services select the same 1,000 pods, or one pod each, or are aliases of each other. An
// alias is followed for a number of Services.
func TestHostile_Services(t *testing.T) {
	const n = 1000
	headless := func(labels func(int) map[string]string) []corev1.Service {
		return hostileServices(n, func(i int, s *corev1.Service) {
			s.Spec.ClusterIP, s.Spec.Selector = corev1.ClusterIPNone, labels(i)
		})
	}
	alias := func(to func(int) int) []corev1.Service {
		return hostileServices(n, func(i int, s *corev1.Service) {
			s.Spec.Type = corev1.ServiceTypeExternalName
			s.Spec.ExternalName = fmt.Sprintf("s%d.shop.svc.cluster.local", to(i))
		})
	}
	selected := func(labels func(int) map[string]string) *Snapshot {
		return &Snapshot{Pods: hostilePods(n, ownLabels), Services: headless(labels)}
	}
	checkHostile(t, selected(sameLabels), map[string]int{"service-no-pods": n})
	checkHostile(t, selected(ownLabels), map[string]int{"service-no-pods": n})
	chain, ring := alias(func(i int) int { return i + 1 }), alias(func(i int) int { return (i + 1) % n })
	checkHostile(t, &Snapshot{Services: chain}, map[string]int{"external-name": 1 + n - maxAliases})
	checkHostile(t, &Snapshot{Services: ring}, map[string]int{"external-name": n})
	into := alias(func(i int) int { return max(1, (i+1)%n) }) // the first one leads to the loop
	checkHostile(t, &Snapshot{Services: into}, map[string]int{"external-name": n})
}

// TestHostile_Networks: 1,000 NetworkPolicies select one of 1,000 pods each by a label.
func TestHostile_Networks(t *testing.T) {
	const n = 1000
	s := &Snapshot{Pods: hostilePods(n, ownLabels)}
	s.Networks = hostileNetworks(n, func(i int) metav1.LabelSelector { return metav1.LabelSelector{MatchLabels: ownLabels(i)} })
	checkHostile(t, s, map[string]int{"network-policy": n})
}

// TestHostile_NetworksAll: each of 1,000 NetworkPolicies selects each of 1,000 pods. The evidence
// has a few of them.
func TestHostile_NetworksAll(t *testing.T) {
	const n = 1000
	s := &Snapshot{Pods: hostilePods(n, ownLabels)}
	s.Networks = hostileNetworks(n, func(int) metav1.LabelSelector { return metav1.LabelSelector{} })
	checkHostile(t, s, map[string]int{"network-policy": n})
	hits := newView(s).deniedEgress(corev1.ProtocolUDP)
	if last := hits[0].evidence[maxLines]; last != fmt.Sprintf("and %d more", n-maxLines) {
		t.Error(last)
	}
}

// TestRun_Late: a check that had not ended when the time was over is not checked.
func TestRun_Late(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &Snapshot{Pods: hostilePods(1000, ownLabels)}
	s.Networks = hostileNetworks(1000, func(int) metav1.LabelSelector { return metav1.LabelSelector{} })
	addDNS(s)
	r := Run(ctx, s)
	if len(r.Findings) > 0 || r.Passed > 0 ||
		!slices.ContainsFunc(r.NotChecked, func(n v1alpha1.DoctorNotChecked) bool {
			return n.Why == tooLate && slices.Contains(n.Checks, "network-policy")
		}) {
		t.Errorf("%d findings, %d passed, not checked: %+v", len(r.Findings), r.Passed, r.NotChecked)
	}
	v := newView(s)
	v.done = ctx.Done()
	steps := 0
	for range v.policiesOf(&s.Pods[0], networkingv1.PolicyTypeEgress) {
		steps++
	}
	if steps > 0 || len(v.inScope()) > 0 {
		t.Errorf("%d policies, %d pods", steps, len(v.inScope()))
	}
}

// TestRun_ResultSize: 10,000 pods with a finding each, and the name of a pod in an endpoint, which
// the API server does not validate, of three megabytes.
func TestRun_ResultSize(t *testing.T) {
	s := &Snapshot{Pods: hostilePods(10_000, sameLabels), Services: hostileServices(1, func(int, *corev1.Service) {})}
	for i := range s.Pods {
		s.Pods[i].Spec.Subdomain = "none"
	}
	addDNS(s)
	notReady := false
	s.Slices[0].Endpoints = append(s.Slices[0].Endpoints, discoveryv1.Endpoint{
		Addresses: []string{"10.0.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: &notReady},
		TargetRef: &corev1.ObjectReference{Name: strings.Repeat("\"<\x00", 1<<20)},
	})
	r := Run(t.Context(), s)
	text := must.Get(json.Marshal(r))(t)
	codes := map[string]int{}
	for _, f := range r.Findings {
		codes[f.Code] += 1 + f.More
	}
	if codes["dns-endpoints-not-ready"] != 1 || codes["subdomain-service"] != 10_000 {
		t.Errorf("%v", codes)
	}
	const perFinding = 16 << 10
	if most := len(Checks()) * MaxFindings; len(r.Findings) > most || len(text) > len(r.Findings)*perFinding {
		t.Errorf("%d findings of at most %d, %d bytes", len(r.Findings), most, len(text))
	}
}
