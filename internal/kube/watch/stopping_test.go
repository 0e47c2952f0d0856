// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestPods_Stopping: a deleted pod is being stopped while one of its containers runs, and for a while
// after its grace period.
func TestPods_Stopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pods{table: newTable()}
		if n, known := p.Stopping(); n != 0 || known {
			t.Errorf("before the list: %d, known: %t", n, known)
		}
		newPod := func(uid types.UID) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(uid), UID: uid}}
		}
		pod := newPod("u1")
		running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{running, {}}
		other := newPod("u2")
		if err := p.table.Replace([]any{pod, other}, "1"); err != nil {
			t.Fatal(err)
		}
		change := func(what string, want int, f func()) {
			t.Helper()
			f()
			if err := p.table.Update(pod); err != nil {
				t.Fatal(err)
			}
			if n, known := p.Stopping(); n != want || !known {
				t.Errorf("%s: %d, known: %t, want %d", what, n, known, want)
			}
		}
		change("runs", 0, func() {})
		change("deleted", 1, func() { pod.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(600 * time.Second)} })
		change("one container has stopped", 1, func() {
			pod.Status.ContainerStatuses[1].State.Terminated = &corev1.ContainerStateTerminated{}
		})
		change("all have stopped", 0, func() { pod.Status.ContainerStatuses = pod.Status.ContainerStatuses[1:] })
		change("a sidecar runs", 1, func() { pod.Status.InitContainerStatuses = []corev1.ContainerStatus{running} })
		change("the end of the grace period", 1, func() { time.Sleep(600*time.Second + stopSlack - 1) })
		change("cannot be stopped", 0, func() { time.Sleep(time.Nanosecond) })
		change("deleted again", 1, func() { pod.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		if err := p.table.Delete(pod); err != nil {
			t.Fatal(err)
		}
		if n, _ := p.Stopping(); n != 0 || len(p.table.stops) != 0 {
			t.Errorf("%d pods after the removal", n)
		}
		change("back", 1, func() {})
		if err := p.table.Replace([]any{other}, "2"); err != nil || len(p.table.stops) != 0 {
			t.Errorf("%v, %v after a list without the pod", err, p.table.stops)
		}
	})
}
