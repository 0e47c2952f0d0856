// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Limits of reading what is scaled.
const (
	// OpenTimeout is how long a scale waits for its StatefulSet: well below the
	// timeoutSeconds of `webhook manifests`, after which the API server goes on without us
	// and says in its metrics that we failed.
	OpenTimeout = time.Second

	// MaxStatefulSet is the size in bytes of the largest one that is read. The API server
	// takes objects of 3 MiB, and adds who owns which field.
	MaxStatefulSet = 4 << 20
)

// What a scale is a part of, and its own kind.
var (
	statefulSets = metav1.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	scaleKind    = metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
)

// scale judges the number of pods that a StatefulSet is to have: its host names end with
// ordinals, and get longer. It is never denied, as no update of what makes pods is.
//
// The set has been judged when it was applied, so only what the number changes is said:
// what is found in the set as it will be, and not in the set as it is. Without a higher
// ordinal there is nothing. What is said is about the number, which is all that a scale has.
func (h *Handler) scale(ctx context.Context, q request) (answer, error) {
	if h.open == nil {
		return answer{verdict: verdictPassed}, nil
	}
	var asked struct {
		Spec struct {
			Replicas int32 `json:"replicas"` // absent: 0
		} `json:"spec"`
	}
	if err := document.Decode(q.Object, &asked); err != nil {
		return answer{}, err
	}
	now, err := h.statefulSet(ctx, q)
	if err != nil {
		return answer{}, fmt.Errorf("reading the StatefulSet that is scaled: %w", err)
	}
	next := now.WithReplicas(asked.Spec.Replicas)
	if next.Ordinals.Last <= now.Ordinals.Last {
		return answer{verdict: verdictAllowed}, nil
	}
	rules, o := h.rules.Load(), objectOf(next, q)
	known := rules.Check(objectOf(now, q))
	found := slices.DeleteFunc(rules.Check(o), func(f policy.Finding) bool { return slices.Contains(known, f) })
	for i := range found {
		found[i].Field = "spec.replicas"
	}
	return verdictOn(o, found), nil
}

// statefulSet reads what q scales.
func (h *Handler) statefulSet(ctx context.Context, q request) (kube.Workload, error) {
	ctx, cancel := context.WithTimeout(ctx, OpenTimeout)
	defer cancel()
	r, err := h.open(ctx, q.Namespace, q.Name)
	if err != nil {
		return kube.Workload{}, err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, MaxStatefulSet+1))
	switch {
	case err != nil:
		return kube.Workload{}, err
	case len(text) > MaxStatefulSet:
		return kube.Workload{}, fmt.Errorf("it has more than %d bytes", MaxStatefulSet)
	}
	w, _, err := kube.ParseAdmissionObject(statefulSets.Group+"/"+statefulSets.Version, "StatefulSet", text)
	return w, err
}
