// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// The codes of the findings about annotations, except those of the policy engine.
const (
	CodeAnnotationPlace policy.Code = "annotation-not-in-template"
	CodeAnnotationValue policy.Code = "annotation-value"
)

// The annotations of pods whose values a node reads, except [policy.OverrideAnnotation].
const (
	SkipAnnotation    = "dnsconfigurer.dev/skip"
	RefreshAnnotation = "dnsconfigurer.dev/refresh"
)

// CheckAnnotations returns the findings in the annotations of an object, and of its pods, which are
// the same for a Pod. Kubelets pass those of the pod to the node; those of an object that creates
// pods stay there.
func CheckAnnotations(o Object, object, pod map[string]string) []policy.Finding {
	c := newCheck(&o)
	for _, name := range []string{policy.OverrideAnnotation, RefreshAnnotation, SkipAnnotation} {
		_, inObject := object[name]
		if _, inPod := pod[name]; inObject && !inPod {
			c.warn(CodeAnnotationPlace, policy.EnforcedByDNSConfigurer, o.of(annotationField(name)),
				fmt.Sprintf("annotation %s of a %s has no effect on its pods", name, o.Kind),
				"move it to "+o.ofPod("metadata.annotations"))
		}
	}
	c.checkAnnotationValue(pod, SkipAnnotation, "true", "false")
	c.checkAnnotationValue(pod, RefreshAnnotation, "always", "never")
	return c.findings
}

// checkAnnotationValue warns of an annotation of the pod that has neither of two values.
func (c *check) checkAnnotationValue(pod map[string]string, name, a, b string) {
	if value, ok := pod[name]; ok && value != a && value != b {
		c.warn(CodeAnnotationValue, policy.EnforcedByDNSConfigurer, c.o.ofPod(annotationField(name)),
			fmt.Sprintf("annotation %s: %s has no effect", name, excerpt.Quote(value)), fmt.Sprintf("want %q or %q", a, b))
	}
}

func annotationField(name string) string { return "metadata.annotations[" + name + "]" }
