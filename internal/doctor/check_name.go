// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// servicesInScope calls f for the Services to check.
func (v *view) servicesInScope(f func(*corev1.Service)) {
	for i := range v.Services {
		if v.isLate() {
			return
		}
		if s := &v.Services[i]; v.Scope.hasService(s.Namespace) {
			f(s)
		}
	}
}

func isHeadless(s *corev1.Service) bool { return s.Spec.ClusterIP == corev1.ClusterIPNone }

// findNoPods returns the Services whose selector matches no pod, except while their Deployment is scaled to 0, and
// headless Services without a ready pod.
func findNoPods(v *view) (hits []hit) {
	v.servicesInScope(func(s *corev1.Service) {
		if len(s.Spec.Selector) == 0 || s.Spec.Type == corev1.ServiceTypeExternalName || s == v.dns {
			return
		}
		isScaledDown := slices.ContainsFunc(v.Deployments, func(d appsv1.Deployment) bool {
			return d.Namespace == s.Namespace && ptr.Deref(d.Spec.Replicas, 1) == 0 &&
				selects(s.Spec.Selector, d.Spec.Template.Labels)
		})
		selected, ready := v.selected(s)
		name := ""
		if isHeadless(s) {
			name = ": " + v.serviceDomain(s) + " does not exist"
		}
		switch {
		case len(selected) == 0 && !isScaledDown:
			hits = append(hits, found(serviceObject(s), "the selector matches no pod"+name,
				"spec.selector: "+k8slabels.Set(s.Spec.Selector).String(),
				fmt.Sprintf("%d pods in the namespace", len(v.byNamespace[s.Namespace]))))
		case len(selected) > 0 && !ready && isHeadless(s) && !s.Spec.PublishNotReadyAddresses:
			evidence := []string{"spec.publishNotReadyAddresses: false"}
			for _, p := range selected[:min(len(selected), maxLines)] {
				evidence = append(evidence, podLine(p))
			}
			hits = append(hits, found(serviceObject(s), "no pod is ready"+name, moreLine(evidence, len(selected), len(evidence)-1)...))
		}
	})
	return hits
}

// selected returns the pods that a Service selects, up to the first that is ready.
func (v *view) selected(s *corev1.Service) (list []*corev1.Pod, ready bool) {
	for _, p := range v.byNamespace[s.Namespace] {
		if ready || v.isLate() {
			break
		}
		if selects(s.Spec.Selector, p.Labels) {
			list, ready = append(list, p), isReady(p)
		}
	}
	return list, ready
}

func findSubdomain(v *view) (hits []hit) {
	pods, named := v.inScope(), map[string]string{}
	for _, p := range pods {
		fqdn := p.Namespace + "/" + p.Spec.Subdomain + "/" + p.Spec.Hostname
		if p.Spec.Hostname == "" || p.Spec.Subdomain == "" || p.DeletionTimestamp != nil { // a successor may have its name
			continue
		}
		if other := named[fqdn]; other != "" {
			evidence := "Pod " + other + " has the host name and the subdomain, too"
			hits = append(hits, found(podObject(p), "it has the FQDN of another pod", evidence))
		}
		named[fqdn] = p.Name
	}
	objects := make([]admission.Object, len(pods))
	for i, p := range pods {
		objects[i] = admission.Object{Kind: admission.KindPod, Name: p.Name, Pod: kube.FromPod(p)}
	}
	var services []admission.Service
	for i := range v.Services {
		services = append(services, admissionService(&v.Services[i]))
	}
	for i, findings := range admission.CheckServices(objects, services) {
		for _, f := range findings {
			hits = append(hits, found(podObject(pods[i]), strings.ReplaceAll(f.Message, " in the input", ""),
				fmt.Sprintf("spec.hostname: %q, spec.subdomain: %q", pods[i].Spec.Hostname, pods[i].Spec.Subdomain)))
		}
	}
	return hits
}

func admissionService(s *corev1.Service) admission.Service {
	return admission.Service{
		Namespace: s.Namespace, Name: s.Name, Headless: isHeadless(s),
		IsExternalName: s.Spec.Type == corev1.ServiceTypeExternalName, ExternalName: s.Spec.ExternalName,
	}
}

// target returns the Service that an ExternalName names, "" if the name is not one of a
// Service in the cluster. The first label of a longer name is a pod or a port.
func (v *view) target(s *corev1.Service) (key string) {
	name := strings.ToLower(strings.TrimSuffix(s.Spec.ExternalName, "."))
	rest, ok := strings.CutSuffix(name, ".svc."+v.domain)
	parts := strings.Split(rest, ".")
	if !ok || len(parts) < 2 {
		return ""
	}
	return parts[len(parts)-1] + "/" + parts[len(parts)-2]
}

// maxAliases is the number of aliases that servers follow: CoreDNS and the command dns answer SERVFAIL for more.
const maxAliases = 10

func isAlias(s *corev1.Service) bool {
	return s != nil && s.Spec.Type == corev1.ServiceTypeExternalName
}

// findExternalName returns the aliases of Services that do not exist, of too many aliases, as in a loop, and of addresses.
func findExternalName(v *view) []hit {
	var hits, warnings []hit
	v.servicesInScope(func(s *corev1.Service) {
		if !isAlias(s) {
			return
		}
		hits = append(hits, v.deadAlias(s)...)
		for _, f := range admission.CheckService(admissionService(s)) {
			if f.Code == admission.CodeExternalNameAddress || f.Code == admission.CodeInvalidExternalName {
				h := found(serviceObject(s), f.Message, "spec.externalName: "+s.Spec.ExternalName)
				h.severity = policy.SeverityWarning
				warnings = append(warnings, h)
			}
		}
	})
	return append(hits, warnings...)
}

// deadAlias returns why the name of a Service leads to no Service of the cluster, though it names one.
func (v *view) deadAlias(s *corev1.Service) (hits []hit) {
	o, line := serviceObject(s), "spec.externalName: "+s.Spec.ExternalName
	if key := v.target(s); key != "" && v.services[key] == nil {
		hits = append(hits, found(o, "there is no Service "+key, line))
	}
	if name, namespace, ok := strings.Cut(s.Spec.ExternalName, "."); ok && v.services[namespace+"/"+name] != nil {
		hits = append(hits, found(o, "the alias is not a full name: "+s.Spec.ExternalName+".svc."+v.domain+" would be", line))
	}
	var chain []*corev1.Service
	var evidence []string
	next := s
	for isAlias(next) && len(chain) < maxAliases && !slices.Contains(chain, next) {
		chain = append(chain, next)
		evidence = append(evidence, fmt.Sprintf("Service %s/%s: externalName %s", next.Namespace, next.Name, next.Spec.ExternalName))
		next = v.services[v.target(next)]
	}
	if isAlias(next) {
		message := fmt.Sprintf("the alias leads to itself, or through more than %d aliases", maxAliases)
		hits = append(hits, found(o, message, evidence...))
	}
	return hits
}
