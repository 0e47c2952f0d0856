// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// limits are the sizes, in bytes, beyond which nothing is read. Tenants write objects of up to
// three megabytes, of which 50,000 would be 150 gigabytes.
type limits struct {
	page int64 // of one reply

	// kind is for all objects of a kind, as they are encoded and without the fields that no
	// check needs. A pod has one to two kilobytes then.
	kind int
}

func defaultLimits() limits { return limits{page: 64 << 20, kind: 128 << 20} }

// trim removes what no check needs: managed fields, annotations, and of pods what their
// containers run.
func trim(item runtime.Object) {
	o, err := meta.Accessor(item)
	if err != nil {
		return
	}
	o.SetManagedFields(nil)
	override, ok := o.GetAnnotations()[policy.OverrideAnnotation]
	o.SetAnnotations(nil)
	if ok {
		o.SetAnnotations(map[string]string{policy.OverrideAnnotation: override})
	}
	if p, ok := item.(*corev1.Pod); ok {
		trimContainers(p.Spec.InitContainers)
		trimContainers(p.Spec.Containers)
		p.Spec.EphemeralContainers = nil
		p.Spec.Tolerations = nil
	}
}

func trimContainers(list []corev1.Container) {
	for i := range list {
		c := &list[i]
		c.Env, c.EnvFrom, c.Command, c.Args = nil, nil, nil, nil
		c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.Lifecycle = nil, nil, nil, nil
	}
}
