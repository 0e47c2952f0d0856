// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
)

// permittedChecks are the checks that need --kubelets or --exec.
var permittedChecks = []string{"kubelet-config-drift", "pod-file"}

// testDoctor runs the command doctor against the kubelet: its configuration, and commands in
// containers with and without cat.
func (c *cluster) testDoctor(t *testing.T) {
	c.create(t, podWithCat("with-cat"))
	pod := []string{"--kubelets", "--exec", "--pod", namespace + "/with-cat"}
	c.awaitDoctor(t, "a healthy pod", pod, func(r v1alpha1.DoctorResult) error {
		for _, f := range r.Findings {
			if f.Severity == "error" || slices.Contains(permittedChecks, f.Code) {
				return fmt.Errorf("%+v", f)
			}
		}
		for _, n := range r.NotChecked {
			if slices.ContainsFunc(permittedChecks, func(code string) bool { return slices.Contains(n.Checks, code) }) {
				return fmt.Errorf("%+v", n)
			}
		}
		return nil
	})
	c.exec(t, "with-cat", "/bin/busybox", "sh", "-c", "echo nameserver 192.0.2.77 > /etc/resolv.conf")
	c.awaitDoctor(t, "a pod with another nameserver", pod, func(r v1alpha1.DoctorResult) error {
		for _, f := range r.Findings {
			if f.Code == "pod-file" && strings.Contains(strings.Join(f.Evidence, "\n"), "192.0.2.77") {
				return nil
			}
		}
		return errors.New("no such finding")
	})
	// The image of the cluster DNS has no cat.
	c.awaitDoctor(t, "pods without cat", []string{"--exec", "--namespace", "kube-system"}, func(r v1alpha1.DoctorResult) error {
		for _, n := range r.NotChecked {
			if slices.Contains(n.Checks, "pod-file") && strings.Contains(n.Why, "executable file not found") {
				return nil
			}
		}
		return errors.New("no such reason")
	})
	c.remove(t, "with-cat")
}

// podWithCat returns a pod with the program cat, which the image has as a part of busybox only.
func podWithCat(name string) *corev1.Pod {
	p := newPod(name, corev1.PodSpec{})
	programs := corev1.VolumeMount{Name: "programs", MountPath: "/usr/local/bin"}
	p.Spec.Volumes = []corev1.Volume{{Name: programs.Name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	p.Spec.InitContainers = []corev1.Container{{
		Name: "cat", Image: nodetools.LibrariesImage, ImagePullPolicy: corev1.PullNever,
		Command:      []string{"/bin/busybox", "ln", "-s", "/bin/busybox", programs.MountPath + "/cat"},
		VolumeMounts: []corev1.VolumeMount{programs},
	}}
	p.Spec.Containers[0].VolumeMounts = p.Spec.InitContainers[0].VolumeMounts
	return p
}

// awaitDoctor runs the command until check accepts its result: on a busy machine a kubelet or a
// server may not reply in time.
func (c *cluster) awaitDoctor(t *testing.T, what string, flags []string, check func(v1alpha1.DoctorResult) error) {
	t.Helper()
	await(t, "doctor: "+what, func() error {
		args := append([]string{"doctor", "--kubeconfig", adminIdentity, "-o", "json", "--timeout", patience.String(),
			"--external-name", "www.example.com"}, flags...)
		out, err := exec.Command(c.Dnsconfigurer, args...).Output()
		var failed *exec.ExitError
		if err != nil && !errors.As(err, &failed) {
			return err
		}
		var r v1alpha1.DoctorResult
		if err := json.Unmarshal(out, &r); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		if err := check(r); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		t.Logf("%s: findings %+v, not checked %+v, passed %d", what, r.Findings, r.NotChecked, r.Passed)
		return nil
	})
}
