// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// mutate turns dnsPolicy ClusterFirstWithAutopath, in any case, into the policy that nodes
// without dnsconfigurer should follow, and the annotation that tells the others. An update
// of a pod gives the policy that its creation gave, so the API server sees no change.
func (h *Handler) mutate(q request) (answer, error) {
	w, known, err := kube.ReadReviewed(q.apiVersion(), q.Kind.Kind, q.Object)
	if !known || err != nil || !strings.EqualFold(string(w.Pod.Spec.DNSPolicy), string(policy.ClusterFirstWithAutopath)) {
		return answer{verdict: verdictPassed}, err
	}
	instead := corev1.DNSClusterFirst
	if w.Pod.Spec.HostNetwork {
		instead = corev1.DNSClusterFirstWithHostNet
	}
	at := "/" + strings.ReplaceAll(w.Path, ".", "/") // ends with a slash
	patch := []operation{{"replace", at + "spec/dnsPolicy", instead}}
	annotation := operation{"add", at + "metadata/annotations/" + escape(policy.OverrideAnnotation), policy.ClusterFirstWithAutopath}
	switch steps := strings.Split(strings.Trim(at, "/")+"/metadata", "/"); {
	case w.Pod.Annotations[policy.OverrideAnnotation] != "":
		// The author's counts, as it does without us.
	case !has(q.Object, steps):
		patch = append(patch, operation{"add", at + "metadata", struct{}{}}, operation{"add", at + "metadata/annotations", struct{}{}}, annotation)
	case len(w.Pod.Annotations) == 0:
		patch = append(patch, operation{"add", at + "metadata/annotations", struct{}{}}, annotation)
	default:
		patch = append(patch, annotation)
	}
	a := answer{verdict: verdictPatched}
	a.patch, err = json.Marshal(patch)
	return a, err
}

// operation is one of a JSON Patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// escape makes a key a part of a JSON Pointer (RFC 6901, section 3).
func escape(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
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
