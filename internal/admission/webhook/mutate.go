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

// fromAnnotation tells that the policy's annotation is not the author's.
const (
	fromAnnotation = "dnsconfigurer.dev/policy-from"
	fromDNSPolicy  = "dnsPolicy"
)

// mutate does what deploy/autopath/policy.yaml does where the API server has no such
// policies, to the letter: objects do not change when a cluster goes from one to the
// other. dnsPolicy ClusterFirstWithAutopath, in any case, becomes ClusterFirstWithHostNet
// and two annotations; they go when an object that has them asks for something else. An
// update of a pod gives the policy that its creation gave, so the API server sees no
// change. docs/autopath.md has the reasons.
func (h *Handler) mutate(_ context.Context, q request) (answer, error) {
	w, known, err := kube.ParseAdmissionObject(q.apiVersion(), q.Kind.Kind, q.Object)
	if !known || err != nil {
		return answer{verdict: verdictPassed}, err
	}
	at := "/" + strings.ReplaceAll(w.Path, ".", "/") // ends with a slash
	pod, asked := w.Pod, strings.EqualFold(string(w.Pod.Spec.DNSPolicy), string(policy.ClusterFirstWithAutopath))
	_, ours := pod.Annotations[fromAnnotation]
	var patch []operation
	switch windows := pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Windows; {
	case asked && !windows:
		patch = []operation{{"replace", at + "spec/dnsPolicy", corev1.DNSClusterFirstWithHostNet}}
		if _, authors := pod.Annotations[policy.OverrideAnnotation]; !authors { // else the author's counts, as it does without us
			hasMetadata := has(q.Object, strings.Split(at+"metadata", "/"))
			patch = append(patch, annotate(at, hasMetadata, pod.Annotations != nil)...)
		}
	case ours && !asked && pod.Spec.DNSPolicy != corev1.DNSClusterFirstWithHostNet:
		if pod.Annotations[policy.OverrideAnnotation] == string(policy.ClusterFirstWithAutopath) {
			patch = []operation{{Op: "remove", Path: annotation(at, policy.OverrideAnnotation)}}
		}
		patch = append(patch, operation{Op: "remove", Path: annotation(at, fromAnnotation)})
	default:
		return answer{verdict: verdictPassed}, nil
	}
	a := answer{verdict: verdictPatched}
	a.patch, err = json.Marshal(patch)
	return a, err
}

// annotate adds the two annotations, and what has to be there before.
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
		operation{"add", annotation(at, fromAnnotation), fromDNSPolicy})
}

// annotation is the JSON Pointer to one (RFC 6901; section 3 has the escape).
func annotation(at, key string) string {
	return at + "metadata/annotations/" + strings.ReplaceAll(key, "/", "~1")
}

// operation is one of a JSON Patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// has tells whether the object js has something at the end of steps. An empty step is
// none.
func has(js []byte, steps []string) bool {
	for _, step := range steps {
		if step == "" {
			continue
		}
		var within map[string]json.RawMessage
		if json.Unmarshal(js, &within) != nil {
			return false
		}
		js = within[step]
	}
	return len(js) > 0 && string(js) != "null"
}
