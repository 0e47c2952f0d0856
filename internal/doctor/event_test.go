// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestRun_OldEvents has events, which stay for an hour, about pods that have changed since.
func TestRun_OldEvents(t *testing.T) {
	const (
		tooMany = "Nameserver limits were exceeded"
		refused = "Failed to create pod sandbox: open resolv.conf: no such file or directory"
	)
	for _, tt := range []struct {
		name            string
		reason, message string
		uid             types.UID // in the event; the pod has "now"
		ready           corev1.ConditionStatus
		want            []string
	}{
		{"limits of the pod", reasonDNS, tooMany, "now", corev1.ConditionTrue, []string{"pod-dns-limits"}},
		{"limits of an earlier pod of a StatefulSet", reasonDNS, tooMany, "before", corev1.ConditionTrue, nil},
		{"a sandbox that fails", reasonSandbox, refused, "now", corev1.ConditionFalse, []string{"pod-sandbox", "service-no-pods"}},
		{"a sandbox that was created since", reasonSandbox, refused, "now", corev1.ConditionTrue, nil},
		{"a sandbox of an earlier pod", reasonSandbox, refused, "before", corev1.ConditionFalse, []string{"service-no-pods"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := snapshotOf(t, healthy(t))
			i := slices.IndexFunc(s.Pods, func(p corev1.Pod) bool { return p.Name == "db-0" })
			s.Pods[i].UID = "now"
			s.Pods[i].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: tt.ready}}
			s.Events = []corev1.Event{{
				Reason: tt.reason, Message: tt.message,
				InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "db-0", UID: tt.uid},
			}}
			if got := codes(Run(t.Context(), s)); !slices.Equal(got, tt.want) {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}
