// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
)

// ownPrefix begins the names of what this project installs.
const ownPrefix = "dnsconfigurer"

// findAdmissionSkipped returns the policies of this project without a binding, and its webhooks without an endpoint.
func findAdmissionSkipped(v *view) (hits []hit) {
	for i := range v.Policies {
		name := v.Policies[i].Name
		isBound := slices.ContainsFunc(v.Bindings, func(b admissionv1.ValidatingAdmissionPolicyBinding) bool {
			return b.Spec.PolicyName == name
		})
		if strings.HasPrefix(name, ownPrefix) && !isBound {
			hits = append(hits, found(object{"ValidatingAdmissionPolicy", "", name}, "it is not enforced",
				fmt.Sprintf("%d bindings, none with policyName %s", len(v.Bindings), name)))
		}
	}
	return append(hits, findWebhooks(admissionv1.Ignore)(v)...)
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
			o := object{"ValidatingWebhookConfiguration", "", c.Name}
			list = append(list, webhook{o, w.Name, w.ClientConfig.Service, w.FailurePolicy, w.Rules})
		}
	}
	for _, c := range v.Mutating {
		for _, w := range c.Webhooks {
			o := object{"MutatingWebhookConfiguration", "", c.Name}
			list = append(list, webhook{o, w.Name, w.ClientConfig.Service, w.FailurePolicy, w.Rules})
		}
	}
	return list
}

// findWebhooks returns a search for webhooks with a failure policy and without an endpoint. Of the webhooks with
// the policy Ignore, only those of the project are searched.
func findWebhooks(want admissionv1.FailurePolicyType) func(*view) []hit {
	return func(v *view) (hits []hit) {
		for _, w := range v.webhooks() {
			p := admissionv1.Fail
			if w.policy != nil {
				p = *w.policy
			}
			isOther := want == admissionv1.Ignore && !strings.HasPrefix(w.object.name, ownPrefix)
			if p == want && !isOther && w.service != nil && isForPods(w.rules) && !v.hasReadyEndpoint(w.service) {
				hits = append(hits, found(w.object, fmt.Sprintf("the webhook %s has no ready endpoint", w.name),
					fmt.Sprintf("failurePolicy: %s", p), fmt.Sprintf("clientConfig.service: %s/%s", w.service.Namespace, w.service.Name)))
			}
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
