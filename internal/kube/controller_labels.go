// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
)

// SelectedBy reports whether a Service with this selector selects w's pod, or the one with an
// ordinal if w has Ordinals. Controllers add labels to the pods that they create. A label
// whose value only a cluster knows, such as pod-template-hash, is assumed to match if another
// one does: NXDOMAIN would be wrong for sure.
func (w Workload) SelectedBy(selector map[string]string, ordinal int64) bool {
	added, assigned := w.controllerLabels(ordinal)
	matched := false
	for key, value := range selector {
		got, ok := added[key]
		if !ok {
			got, ok = w.Pod.Labels[key]
		}
		switch {
		case ok && got == value:
			matched = true
		case ok || !w.Custom && !slices.Contains(assigned, key):
			return false
		}
	}
	return matched
}

// controllerLabels returns the labels that the controller of w adds to a pod, and the keys of
// those whose values only a cluster knows.
func (w Workload) controllerLabels(ordinal int64) (added map[string]string, assigned []string) {
	switch w.Kind {
	case "Deployment":
		return nil, []string{appsv1.DefaultDeploymentUniqueLabelKey}
	case "DaemonSet":
		return nil, []string{appsv1.ControllerRevisionHashLabelKey, "pod-template-generation"}
	case "StatefulSet":
		n := strconv.FormatInt(ordinal, 10)
		added = map[string]string{appsv1.StatefulSetPodNameLabel: w.Ordinals.hostname(ordinal), appsv1.PodIndexLabel: n}
		return added, []string{appsv1.ControllerRevisionHashLabelKey}
	case "Job", "CronJob":
		added, assigned = map[string]string{}, []string{batchv1.ControllerUidLabel, legacyControllerUID}
		if w.Kind == "Job" && !w.GeneratedName {
			added[batchv1.JobNameLabel], added[legacyJobName] = w.Name, w.Name
		} else {
			assigned = append(assigned, batchv1.JobNameLabel, legacyJobName)
		}
		if w.Ordinals.Base != "" {
			added[batchv1.JobCompletionIndexAnnotation] = strconv.FormatInt(ordinal, 10)
		}
	}
	return added, assigned
}

// The labels of Jobs without a prefix, which the Job controller still adds.
const (
	legacyJobName       = "job-name"
	legacyControllerUID = "controller-uid"
)

// WithOrdinal returns w with the pod of an ordinal instead of the last one. ok is false if
// there is no such pod.
func (w Workload) WithOrdinal(ordinal int64) (_ Workload, ok bool) {
	n := w.Ordinals
	if n.Base == "" || ordinal < int64(n.First) || ordinal > int64(n.Last) {
		return w, false
	}
	w.Pod = w.Pod.DeepCopy()
	w.Pod.Spec.Hostname = n.hostname(ordinal)
	w.Pod.Name = w.Pod.Spec.Hostname
	if w.Kind != "StatefulSet" {
		w.Pod.Name = generatedName(w.Pod.Spec.Hostname + "-")
	}
	return w, true
}
