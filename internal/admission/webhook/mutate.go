// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// originAnnotation marks a policy annotation that was added by admission.
const (
	originAnnotation = "dnsconfigurer.dev/policy-from"
	originDNSPolicy  = "dnsPolicy"
)

// mutate is deploy/autopath/policy.yaml for API servers without mutating admission policies.
// The two must have the same result, so that objects do not change when a cluster switches
// from one to the other. It replaces dnsPolicy ClusterFirstWithAutopath, in upper or lower
// case, by ClusterFirstWithHostNet and two annotations. It removes the annotations from an
// object with another policy. An update of a pod has the same result as its creation, so the
// API server finds no change. docs/dns.md has the reasons.
func (h *Handler) mutate(_ context.Context, q request) (answer, error) {
	w, known, err := kube.ParseAdmissionObject(q.apiVersion(), q.Kind.Kind, q.Object)
	if !known || err != nil {
		return answer{verdict: verdictPassed}, err
	}
	at := "/" + strings.ReplaceAll(w.Path, ".", "/") // ends with a slash
	pod, autopath := w.Pod, policy.Policy(w.Pod.Spec.DNSPolicy).IsAutopath()
	_, added := pod.Annotations[originAnnotation]
	var patch []operation
	switch windows := kube.IsWindows(&pod.Spec); {
	case autopath && !windows:
		patch = []operation{{"replace", at + "spec/dnsPolicy", corev1.DNSClusterFirstWithHostNet}}
		if _, set := pod.Annotations[policy.OverrideAnnotation]; !set { // the author's annotation has precedence
			hasMetadata := has(q.Object, strings.Split(at+"metadata", "/"))
			patch = append(patch, annotate(at, hasMetadata, pod.Annotations != nil)...)
		}
	case added && !autopath && pod.Spec.DNSPolicy != corev1.DNSClusterFirstWithHostNet:
		if pod.Annotations[policy.OverrideAnnotation] == string(policy.ClusterFirstWithAutopath) {
			patch = []operation{{Op: "remove", Path: annotation(at, policy.OverrideAnnotation)}}
		}
		patch = append(patch, operation{Op: "remove", Path: annotation(at, originAnnotation)})
	default:
		return answer{verdict: verdictPassed}, nil
	}
	a := answer{verdict: verdictPatched}
	a.patch, err = json.Marshal(patch)
	return a, err
}

// annotate returns the operations that add the two annotations and their parents.
func annotate(at string, hasMetadata, hasAnnotations bool) []operation {
	var patch []operation
	if !hasMetadata {
		patch = append(patch, operation{"add", at + "metadata", struct{}{}})
	}
	if !hasAnnotations {
		patch = append(patch, operation{"add", at + "metadata/annotations", struct{}{}})
	}
	return append(patch,
		operation{"add", annotation(at, policy.OverrideAnnotation), policy.ClusterFirstWithAutopath},
		operation{"add", annotation(at, originAnnotation), originDNSPolicy})
}

// annotation returns the JSON Pointer of an annotation (RFC 6901; section 3 has the escape).
func annotation(at, key string) string {
	return at + "metadata/annotations/" + strings.ReplaceAll(key, "/", "~1")
}

// operation is an operation of a JSON Patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// has reports whether the object js has a value at a path. It ignores empty steps.
func has(js []byte, steps []string) bool {
	for _, step := range steps {
		if step == "" {
			continue
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(js, &object) != nil {
			return false
		}
		js = object[step]
	}
	return len(js) > 0 && string(js) != "null"
}
