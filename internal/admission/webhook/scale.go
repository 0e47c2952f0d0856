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

// Limits of reading the StatefulSet that is scaled.
const (
	// OpenTimeout is how long a scale waits for its StatefulSet. It is well below the
	// timeoutSeconds of its registration, after which the API server ignores the
	// webhook and counts a failure.
	OpenTimeout = time.Second

	// MaxStatefulSet is the size in bytes of the largest one that is read. The API server
	// accepts objects of 3 MiB, and adds managedFields.
	MaxStatefulSet = 4 << 20
)

// The resource of a StatefulSet, and the kind of its scale.
var (
	statefulSets = metav1.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	scaleKind    = metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
)

// scale checks the new number of replicas of a StatefulSet: its host names end with ordinals
// and get longer. Like an update of any object that creates pods, a scale is never denied.
//
// The StatefulSet was checked when it was applied, so the answer has only the findings in the
// new state that are not findings in the current one. There are none without a higher
// ordinal. Their field is the number of replicas, the only one that a scale has.
func (h *Handler) scale(ctx context.Context, q request) (answer, error) {
	if h.open == nil {
		return answer{verdict: verdictPassed}, nil
	}
	text, release, err := h.readStatefulSet(ctx, q)
	if err != nil {
		return answer{}, fmt.Errorf("reading the StatefulSet that is scaled: %w", err)
	}
	defer release()
	var desired struct {
		Spec struct {
			Replicas int32 `json:"replicas"` // absent: 0
		} `json:"spec"`
	}
	if err := document.Decode(q.Object, &desired); err != nil {
		return answer{}, err
	}
	current, _, err := kube.ParseAdmissionObject(statefulSets.Group+"/"+statefulSets.Version, "StatefulSet", text)
	if err != nil {
		return answer{}, fmt.Errorf("reading the StatefulSet that is scaled: %w", err)
	}
	next := current.WithReplicas(desired.Spec.Replicas)
	if next.Ordinals.Last <= current.Ordinals.Last {
		return answer{verdict: verdictAllowed}, nil
	}
	rules, o := h.rules.Load(), newObject(next, q)
	known, err := rules.Check(ctx, newObject(current, q))
	if err != nil {
		return answer{}, err
	}
	findings, err := rules.Check(ctx, o)
	if err != nil {
		return answer{}, err
	}
	findings = slices.DeleteFunc(findings, func(f policy.Finding) bool { return slices.Contains(known, f) })
	for i := range findings {
		findings[i].Field = "spec.replicas"
	}
	return newAnswer(o, rules.report.Filter(findings, next.Annotations, next.Pod.Annotations)), nil
}

// readStatefulSet returns the StatefulSet that q scales, in JSON. A large one is read and checked
// like a large review (a few at a time): its author can scale it as often as the API
// server admits. The caller must call release when the scale is checked.
func (h *Handler) readStatefulSet(ctx context.Context, q request) (text []byte, release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, OpenTimeout)
	defer cancel()
	r, err := h.open(ctx, q.Namespace, q.Name)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	releaseMemory := func() {}
	text, err = io.ReadAll(io.LimitReader(r, quickBody+1))
	if err == nil && len(text) > quickBody {
		text, releaseMemory, err = h.readLarge(ctx, text, r)
	}
	if err != nil {
		releaseMemory()
		return nil, nil, err
	}
	// The processor is reserved last, because the API server may be slow.
	releaseProcessor, err := h.reserveProcessor(ctx, int64(max(len(text), len(q.Object))))
	if err != nil {
		releaseMemory()
		return nil, nil, err
	}
	return text, func() { releaseProcessor(); releaseMemory() }, nil
}

// readLarge returns text with what follows it in r. It waits for the memory before it reads.
// release must be called in any case.
func (h *Handler) readLarge(ctx context.Context, text []byte, r io.Reader) (_ []byte, release func(), err error) {
	if h.large.Acquire(ctx, MaxStatefulSet) != nil {
		return nil, func() {}, tooMany("memory")
	}
	release = func() { h.large.Release(MaxStatefulSet) }
	rest, err := io.ReadAll(io.LimitReader(r, int64(MaxStatefulSet+1-len(text))))
	text = append(text, rest...)
	if err == nil && len(text) > MaxStatefulSet {
		err = fmt.Errorf("larger than %d bytes", MaxStatefulSet)
	}
	return text, release, err
}
