// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// nameChecks are about names of the cluster that do not resolve.
func nameChecks() []Check {
	return []Check{
		{
			Code: "service-selects-nothing", Severity: policy.SeverityWarning, What: "the selector of a Service matches no pod",
			cause: "a headless Service without endpoints has no name in DNS; the address of another one refuses connections",
			next:  "kubectl -n $NS get service $NAME -o jsonpath='{.spec.selector}'; kubectl -n $NS get pods --show-labels",
			needs: []need{read(Services, Pods)}, find: findSelectsNothing,
		},
		{
			Code: "headless-not-ready", Severity: policy.SeverityWarning,
			What: "no pod of a headless Service is ready, so that its names do not exist",
			cause: "a pod that is not ready has no name, unless the Service has publishNotReadyAddresses; members " +
				"of a cluster that wait for each other need it",
			next:  "kubectl -n $NS get service $NAME -o yaml",
			needs: []need{read(Services, Pods)}, find: findHeadlessNotReady,
		},
		{
			Code: "subdomain-service", Severity: policy.SeverityWarning,
			What:  "a pod has a subdomain without a headless Service of this name",
			cause: "the FQDN of a pod resolves only through a headless Service with the name of its subdomain",
			next:  "kubectl -n $NS get services; kubectl -n $NS get pod $NAME -o jsonpath='{.spec.subdomain}'",
			needs: []need{read(Services, Pods)}, find: findSubdomain,
		},
		{
			Code: "external-name-address", Severity: policy.SeverityWarning,
			What:  "the externalName of a Service is an address or not a hostname",
			cause: "a Service of type ExternalName is an alias of a name",
			next:  "kubectl -n $NS get service $NAME -o jsonpath='{.spec.externalName}'",
			needs: []need{read(Services)}, find: findExternalAddress,
		},
		{
			Code: "external-name-loop", Severity: policy.SeverityError, What: "Services of type ExternalName are aliases of each other",
			cause: "an alias loop has no address: lookups fail with SERVFAIL",
			next:  "kubectl -n $NS get service $NAME -o jsonpath='{.spec.externalName}'",
			needs: []need{read(Services)}, find: findExternalLoop,
		},
		{
			Code: "external-name-missing", Severity: policy.SeverityError,
			What:  "the externalName of a Service is a name of the cluster that does not exist",
			cause: "the Service was removed, or the name has a typing error",
			next:  "kubectl -n $NS get service $NAME -o jsonpath='{.spec.externalName}'",
			needs: []need{read(Services)}, find: findExternalMissing,
		},
	}
}

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

func hasSelector(s *corev1.Service) bool {
	return len(s.Spec.Selector) > 0 && s.Spec.Type != corev1.ServiceTypeExternalName
}

func findSelectsNothing(v *view) (hits []hit) {
	v.servicesInScope(func(s *corev1.Service) {
		if !hasSelector(s) || s == v.dns || v.selection(s).pods > 0 {
			return
		}
		message := "the selector matches no pod"
		if isHeadless(s) {
			message = "the selector of the headless Service matches no pod: " + v.serviceDomain(s) + " does not exist"
		}
		hits = append(hits, hit{object: serviceObject(s), message: message, evidence: []string{
			"spec.selector: " + labels(s.Spec.Selector), fmt.Sprintf("%d pods in the namespace", len(v.byNamespace[s.Namespace])),
		}})
	})
	return hits
}

func findHeadlessNotReady(v *view) (hits []hit) {
	v.servicesInScope(func(s *corev1.Service) {
		if !hasSelector(s) || !isHeadless(s) || s.Spec.PublishNotReadyAddresses {
			return
		}
		selected := v.selection(s)
		if selected.pods == 0 || selected.ready {
			return
		}
		evidence := []string{"spec.publishNotReadyAddresses: false"}
		for _, p := range selected.first {
			evidence = append(evidence, podLine(p))
		}
		evidence = moreLine(evidence, selected.pods, len(selected.first))
		hits = append(hits,
			hit{object: serviceObject(s), message: v.serviceDomain(s) + " does not exist: no pod is ready", evidence: evidence})
	})
	return hits
}

func findSubdomain(v *view) (hits []hit) {
	pods := v.inScope()
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
			hits = append(hits,
				hit{object: podObject(pods[i]), message: strings.ReplaceAll(f.Message, " in the input", ""), evidence: []string{
					fmt.Sprintf("spec.hostname: %q, spec.subdomain: %q", pods[i].Spec.Hostname, pods[i].Spec.Subdomain),
				}})
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

func findExternalAddress(v *view) (hits []hit) {
	v.servicesInScope(func(s *corev1.Service) {
		for _, f := range admission.CheckService(admissionService(s)) {
			if f.Code == admission.CodeExternalNameAddress || f.Code == admission.CodeInvalidExternalName {
				hits = append(hits,
					hit{object: serviceObject(s), message: f.Message, evidence: []string{"spec.externalName: " + s.Spec.ExternalName}})
			}
		}
	})
	return hits
}

// target returns the Service that an ExternalName names, "" if the name is not one of a
// Service in the cluster. The first label of a longer name is a pod or a port.
func (v *view) target(s *corev1.Service) (key string) {
	name := strings.ToLower(strings.TrimSuffix(s.Spec.ExternalName, "."))
	rest, ok := strings.CutSuffix(name, ".svc."+v.domain)
	parts := strings.Split(rest, ".")
	if s.Spec.Type != corev1.ServiceTypeExternalName || !ok || len(parts) < 2 {
		return ""
	}
	return parts[len(parts)-1] + "/" + parts[len(parts)-2]
}

func findExternalLoop(v *view) (hits []hit) {
	lengths := v.loops()
	v.servicesInScope(func(s *corev1.Service) {
		length := lengths[s]
		if length == 0 {
			return
		}
		var evidence []string
		next := s
		for range min(length, maxLines) {
			evidence = append(evidence, fmt.Sprintf("Service %s/%s: externalName %s", next.Namespace, next.Name, next.Spec.ExternalName))
			next = v.services[v.target(next)]
		}
		hits = append(hits, hit{object: serviceObject(s), message: "the alias leads to itself",
			evidence: moreLine(evidence, length, len(evidence))})
	})
	return hits
}

// loops returns the Services whose alias leads to itself, with the number of Services in the
// loop. Each alias is followed once: one that an earlier walk reached leads to no other loop.
func (v *view) loops() (lengths map[*corev1.Service]int) {
	lengths = map[*corev1.Service]int{}
	walks := map[*corev1.Service]int{} // the walk that reached a Service first
	v.servicesInScope(func(start *corev1.Service) {
		walk, next := len(walks)+1, start
		for next != nil && walks[next] == 0 {
			walks[next] = walk
			next = v.services[v.target(next)]
		}
		if next == nil || walks[next] != walk {
			return
		}
		loop := []*corev1.Service{next}
		for s := v.services[v.target(next)]; s != next; s = v.services[v.target(s)] {
			loop = append(loop, s)
		}
		for _, s := range loop {
			lengths[s] = len(loop)
		}
	})
	return lengths
}

func findExternalMissing(v *view) (hits []hit) {
	v.servicesInScope(func(s *corev1.Service) {
		if key := v.target(s); key != "" && v.services[key] == nil {
			hits = append(
				hits,
				hit{object: serviceObject(s), message: "there is no Service " + key,
					evidence: []string{"spec.externalName: " + s.Spec.ExternalName}},
			)
		}
	})
	return hits
}
