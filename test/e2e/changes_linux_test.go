// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// testUpgrade upgrades to an image of another name, and thus replaces all pods of the
// cluster DNS and of the node cache.
func (c *cluster) testUpgrade(t *testing.T) {
	tag := c.imageTag(t)
	const repository, next = "registry.example/dnsconfigurer:", "next"
	if out, err := exec.Command("ctr", "--namespace", "k8s.io", "images", "tag", repository+tag, repository+next).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.during(t, func() { c.install(t, next) })
}

// testOutage kills the control plane. Lookups go on, a container and a sandbox that end
// start again as before, and a static pod starts with a kubelet, and a shim if there is one, that
// have not reached the API server since their start.
func (c *cluster) testOutage(t *testing.T) {
	pods := policyPods()
	c.during(t, func() {
		c.api.API.Kill()
		c.api.Etcd.Kill()
		c.endContainer(t, "autopath")
		c.endSandbox(t, "autopath-kep")
		for _, name := range []string{"autopath", "autopath-kep"} {
			if diff := cmp.Diff(pods[name].want, c.view(t, name)); diff != "" {
				t.Errorf("after a restart %s sees (-want +got):\n%s", name, diff)
			}
			c.checkLookups(t, name)
		}
		c.testStaticPod(t)
		if err := errors.Join(c.api.Etcd.Start(), c.api.API.Start(), c.api.Ready(t.Context())); err != nil {
			t.Fatal(err)
		}
	})
	c.create(t, newPod("afterwards", corev1.PodSpec{}))
	c.checkLookups(t, "afterwards")
}

// endContainer ends a container of a pod, and returns when another has started.
func (c *cluster) endContainer(t *testing.T, pod string) {
	t.Helper()
	id, err := c.containerID(t, pod)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.runtime.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: id}); err != nil {
		t.Fatal(err)
	}
	c.awaitOther(t, pod, id)
}

// awaitOther returns when a pod has another container than the one with an ID.
func (c *cluster) awaitOther(t *testing.T, pod, id string) {
	t.Helper()
	await(t, "another container of "+pod, func() error {
		now, err := c.containerID(t, pod)
		if err == nil && now == id {
			err = errors.New("it is the same")
		}
		return err
	})
}

// endSandbox ends the sandbox of a pod, and returns when its containers run in another.
func (c *cluster) endSandbox(t *testing.T, pod string) {
	t.Helper()
	id, err := c.containerID(t, pod)
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.runtime.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.namespace": namespace, "io.kubernetes.pod.name": pod},
		State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}, // one that has ended may remain
	}})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d sandboxes of %s, %v", len(list.GetItems()), pod, err)
	}
	if _, err := c.runtime.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: list.Items[0].Id}); err != nil {
		t.Fatal(err)
	}
	c.awaitOther(t, pod, id)
}

// testStaticPod starts kubelet and shim without an API server, and then a static pod.
func (c *cluster) testStaticPod(t *testing.T) {
	t.Helper()
	servers := []*process.Process{c.kubelet}
	if c.shim.PID() != 0 {
		servers = []*process.Process{c.shim, c.kubelet}
	}
	for _, server := range servers {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}
	pod := newPod("static", corev1.PodSpec{})
	pod.Annotations = map[string]string{"dnsconfigurer.dev/policy": "ClusterFirstWithAutopath"}
	writeFile(t, filepath.Join(manifests, "static.yaml"), string(encode(t, pod)))
	for _, server := range servers {
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
	}
	name := "static-" + nodeName
	await(t, "the static pod", func() error { _, err := c.containerID(t, name); return err })
	if diff := cmp.Diff(view{name, autopathText}, c.view(t, name)); diff != "" {
		t.Errorf("the static pod sees (-want +got):\n%s", diff)
	}
	c.checkLookups(t, name)
	if err := os.Remove(filepath.Join(manifests, "static.yaml")); err != nil {
		t.Error(err)
	}
}
