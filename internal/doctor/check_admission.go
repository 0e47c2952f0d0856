// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// ownPrefix begins the names of what this project installs.
const ownPrefix = "dnsconfigurer"

// admissionChecks are about what keeps pods from being created or checked, and about the
// versions of this project's components.
func admissionChecks() []Check {
	return []Check{
		{
			Code: "policy-unbound", Severity: policy.SeverityWarning, What: "an admission policy of dnsconfigurer has no binding",
			cause: "a ValidatingAdmissionPolicy without a ValidatingAdmissionPolicyBinding is not enforced",
			next:  "dnsconfigurer policies | kubectl apply -f -; dnsconfigurer policies --check",
			needs: []need{read(Policies, Bindings)}, find: findUnbound,
		},
		{
			Code: "webhook-unreachable", Severity: policy.SeverityError,
			What:  "an admission webhook for pods with failurePolicy Fail has no ready endpoint",
			cause: "a pod that the webhook selects cannot be created until it replies; that may be one of the cluster DNS",
			next:  "kubectl get endpointslices -A; kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations $NAME -o yaml",
			needs: []need{read(Validating, Mutating, Services, Slices)}, find: findWebhooks(admissionv1.Fail),
		},
		{
			Code: "webhook-skipped", Severity: policy.SeverityWarning, What: "the admission webhook of dnsconfigurer has no ready endpoint",
			cause: "its failurePolicy is Ignore: pods are created unchecked",
			next:  "kubectl -n dnsconfigurer get pods",
			needs: []need{read(Validating, Mutating, Services, Slices)}, find: findWebhooks(admissionv1.Ignore),
		},
		{
			Code: "version-skew", Severity: policy.SeverityWarning, What: "components of dnsconfigurer have different versions",
			cause: "an upgrade has not reached all components; neighbouring versions work together, others are not tested",
			next:  "kubectl get deployments,daemonsets -A -o wide",
			needs: []need{read(Deployments, DaemonSets)}, find: findVersionSkew,
		},
	}
}

func findUnbound(v *view) (hits []hit) {
	for i := range v.Policies {
		name := v.Policies[i].Name
		isBound := slices.ContainsFunc(v.Bindings, func(b admissionv1.ValidatingAdmissionPolicyBinding) bool {
			return b.Spec.PolicyName == name
		})
		if !strings.HasPrefix(name, ownPrefix) || isBound {
			continue
		}
		hits = append(hits, hit{object: object{"ValidatingAdmissionPolicy", "", name}, message: "it is not enforced", evidence: []string{
			fmt.Sprintf("%d bindings, none with policyName %s", len(v.Bindings), name),
		}})
	}
	return hits
}

// webhook is what validating and mutating webhooks have in common.
type webhook struct {
	object  object
	name    string
	service *admissionv1.ServiceReference
	policy  *admissionv1.FailurePolicyType
	rules   []admissionv1.RuleWithOperations
}

func (v *view) webhooks() (list []webhook) {
	for _, c := range v.Validating {
		for _, w := range c.Webhooks {
			list = append(
				list,
				webhook{object{"ValidatingWebhookConfiguration", "", c.Name}, w.Name, w.ClientConfig.Service, w.FailurePolicy, w.Rules},
			)
		}
	}
	for _, c := range v.Mutating {
		for _, w := range c.Webhooks {
			list = append(
				list,
				webhook{object{"MutatingWebhookConfiguration", "", c.Name}, w.Name, w.ClientConfig.Service, w.FailurePolicy, w.Rules},
			)
		}
	}
	return list
}

// findWebhooks returns a search for webhooks with a failure policy and without an endpoint. Of
// those that may fail, only the project's own are searched.
func findWebhooks(want admissionv1.FailurePolicyType) func(*view) []hit {
	return func(v *view) (hits []hit) {
		for _, w := range v.webhooks() {
			p := admissionv1.Fail
			if w.policy != nil {
				p = *w.policy
			}
			isOwn := strings.HasPrefix(w.object.name, ownPrefix)
			if p != want || want == admissionv1.Ignore && !isOwn || w.service == nil ||
				!isForPods(w.rules) || v.hasReadyEndpoint(w.service) {
				continue
			}
			hits = append(hits,
				hit{object: w.object, message: fmt.Sprintf("the webhook %s has no ready endpoint", w.name), evidence: []string{
					fmt.Sprintf("failurePolicy: %s", p), fmt.Sprintf("clientConfig.service: %s/%s", w.service.Namespace, w.service.Name),
				}})
		}
		return hits
	}
}

// isForPods reports whether a webhook is called when a pod is created.
func isForPods(rules []admissionv1.RuleWithOperations) bool {
	contains := func(list []string, value string) bool {
		return slices.Contains(list, value) || slices.Contains(list, "*") || slices.Contains(list, "*/*")
	}
	return slices.ContainsFunc(rules, func(r admissionv1.RuleWithOperations) bool {
		operation := slices.Contains(r.Operations, admissionv1.Create) || slices.Contains(r.Operations, admissionv1.OperationAll)
		return operation && contains(r.APIGroups, "") && contains(r.Resources, "pods")
	})
}

// hasReadyEndpoint reports whether a Service has one. An ExternalName has none, and may work.
func (v *view) hasReadyEndpoint(r *admissionv1.ServiceReference) bool {
	service := v.services[r.Namespace+"/"+r.Name]
	if service == nil {
		return false
	}
	return service.Spec.Type == corev1.ServiceTypeExternalName || slices.ContainsFunc(
		endpointsOf(service, v.Slices),
		func(e endpoint) bool { return e.ready },
	)
}

func findVersionSkew(v *view) []hit {
	type component struct {
		object   object
		template corev1.PodTemplateSpec
	}
	var all []component
	for _, d := range v.Deployments {
		all = append(all, component{object{"Deployment", d.Namespace, d.Name}, d.Spec.Template})
	}
	for _, d := range v.DaemonSets {
		all = append(all, component{object{"DaemonSet", d.Namespace, d.Name}, d.Spec.Template})
	}
	versions := map[string][]object{}
	var evidence []string
	for _, c := range all {
		for _, container := range c.template.Spec.Containers {
			version, ok := ownVersion(container.Image)
			if !ok {
				continue
			}
			evidence = append(evidence, fmt.Sprintf("%s: %s", c.object, container.Image))
			versions[version] = append(versions[version], c.object)
		}
	}
	if len(versions) < 2 {
		return nil
	}
	names := slices.Sorted(maps.Keys(versions))
	rarest := slices.MinFunc(names, func(a, b string) int { return cmp.Compare(len(versions[a]), len(versions[b])) })
	message := "the components have the versions " + strings.Join(names, ", ")
	return []hit{{object: versions[rarest][0], message: message, evidence: evidence}}
}

// ownVersion returns the tag of an image of dnsconfigurer; ok is false for other images, and
// without a tag.
func ownVersion(image string) (version string, ok bool) {
	image, _, _ = strings.Cut(image, "@")
	name, version, ok := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":")
	return version, ok && name == ownPrefix
}
