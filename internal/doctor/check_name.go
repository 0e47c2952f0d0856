// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
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
			What:  "the externalName of a Service is an address or not a host name",
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
		if s := &v.Services[i]; v.Scope.hasService(s.Namespace) {
			f(s)
		}
	}
}

func isHeadless(s *corev1.Service) bool { return s.Spec.ClusterIP == corev1.ClusterIPNone }

// podsOfService returns the pods that the selector of a Service matches.
func (v *view) podsOfService(s *corev1.Service) (list []*corev1.Pod) {
	for _, p := range v.byNamespace[s.Namespace] {
		if selects(s.Spec.Selector, p.Labels) {
			list = append(list, p)
		}
	}
	return list
}

func hasSelector(s *corev1.Service) bool {
	return len(s.Spec.Selector) > 0 && s.Spec.Type != corev1.ServiceTypeExternalName
}

func findSelectsNothing(v *view) (hits []hit) {
	v.servicesInScope(func(s *corev1.Service) {
		if !hasSelector(s) || s == v.dns || len(v.podsOfService(s)) > 0 {
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
		pods := v.podsOfService(s)
		if !hasSelector(s) || !isHeadless(s) || s.Spec.PublishNotReadyAddresses || len(pods) == 0 || slices.ContainsFunc(pods, isReady) {
			return
		}
		evidence := []string{"spec.publishNotReadyAddresses: false"}
		for _, p := range pods {
			evidence = append(evidence, podLine(p))
		}
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
	v.servicesInScope(func(s *corev1.Service) {
		start := s.Namespace + "/" + s.Name
		evidence, seen := []string{}, map[string]bool{}
		for next := s; next != nil && !seen[next.Namespace+"/"+next.Name]; {
			key := v.target(next)
			seen[next.Namespace+"/"+next.Name] = true
			evidence = append(evidence, fmt.Sprintf("Service %s/%s: externalName %s", next.Namespace, next.Name, next.Spec.ExternalName))
			if key == start {
				hits = append(hits, hit{object: serviceObject(s), message: "the alias leads to itself", evidence: evidence})
				return
			}
			next = v.services[key]
		}
	})
	return hits
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
