// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// stopSlack is how long after its grace period a pod still counts as being stopped: for the kubelet's
// report, and for clocks that differ. A pod that cannot be stopped, or has a finalizer, then counts no
// more.
const stopSlack = 30 * time.Second

// stops has the end of the grace period of the deleted pods with running containers, by UID.
type stops map[string]time.Time

func (s stops) set(pod *corev1.Pod) {
	if pod.DeletionTimestamp == nil || !hasRunning(pod) {
		delete(s, string(pod.UID))
		return
	}
	s[string(pod.UID)] = pod.DeletionTimestamp.Time
}

// hasRunning reports whether a container of the pod runs, as far as the kubelet has reported.
func hasRunning(pod *corev1.Pod) bool {
	s := pod.Status
	return slices.ContainsFunc(slices.Concat(s.ContainerStatuses, s.InitContainerStatuses, s.EphemeralContainerStatuses),
		func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}

// Stopping returns the number of pods of the API server whose containers are being stopped because the
// pod is deleted. known is false until the pods have arrived. The API server does not show other stops,
// such as those after a failed liveness probe.
func (p *Pods) Stopping() (pods int, known bool) {
	p.table.mu.RLock()
	defer p.table.mu.RUnlock()
	for _, end := range p.table.stops {
		if time.Since(end) < stopSlack {
			pods++
		}
	}
	return pods, p.table.isSynced()
}
