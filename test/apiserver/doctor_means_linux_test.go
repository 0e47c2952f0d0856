// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

// means uses the flags of doctor that need further permissions, without them and without nodes: what they
// would show is not checked, with the reason.
func (d *doctorTest) means(t *testing.T) {
	viewer := filepath.Join(t.TempDir(), "kubeconfig") // has the permissions of docs/debugging.md
	d.writeKubeconfig(t, viewer, "viewer")
	flags := []string{"--port-forward", "--pod", "shop/db-0", "--ephemeral-container", "registry.example/dnsconfigurer:missing",
		"--timeout", "20s"}
	for _, tt := range []struct {
		name, kubeconfig string
		forward, pod     string // why not checked
		added            bool
	}{
		{"without permissions", viewer, `cannot get resource "pods/portforward" in API group "" in the namespace "kube-system"`,
			`cannot patch resource "pods/ephemeralcontainers" in API group "" in the namespace "shop"`, false},
		{"without nodes", d.kubeconfig, "2 of 2 pods not queried: pod kube-system/coredns-1: port-forward: ",
			": the time was over: it has not started: set --timeout", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _ := d.doctor(t, append(flags, "--kubeconfig", tt.kubeconfig)...)
			if got := whyNotChecked(r, "probe-forward-no-reply"); !strings.Contains(got, tt.forward) {
				t.Errorf("port-forward: %q, want %q", got, tt.forward)
			}
			if got := whyNotChecked(r, "probe-pod-no-reply"); !strings.Contains(got, tt.pod) {
				t.Errorf("ephemeral container: %q, want %q", got, tt.pod)
			}
			noted := slices.ContainsFunc(r.Pod.Notes, func(note string) bool { return strings.Contains(note, "stays until the pod ends") })
			if noted != tt.added {
				t.Errorf("notes %q", r.Pod.Notes)
			}
		})
	}
}

// whyNotChecked returns why a check did not run, "" if it ran.
func whyNotChecked(r v1alpha1.DoctorResult, code string) string {
	for _, n := range r.NotChecked {
		if slices.Contains(n.Checks, code) {
			return n.Why
		}
	}
	return ""
}
