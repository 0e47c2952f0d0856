// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// testUpgrade upgrades from the previous chart, rolls back, and upgrades to an image by its
// digest. Each replaces all pods of the cluster DNS and of the node cache.
func (c *cluster) testUpgrade(t *testing.T) {
	tag := c.imageTag(t)
	c.ctr(t, "tag", repository+":"+tag, repository+":next")
	c.ctr(t, "import", "--digests", "--base-name", repository, c.Release) // as docs/install.md says
	byDigest := regexp.MustCompile(`(?m)^` + repository + `@(sha256:[0-9a-f]{64})$`).FindStringSubmatch(c.ctr(t, "list", "--quiet"))
	if byDigest == nil {
		t.Fatal("no image with a digest after the import")
	}
	c.chart = currentChart
	for _, step := range []struct {
		name, want string
		change     func()
	}{
		{"from the previous chart", repository + ":next", func() { c.image = "image.tag=next"; c.install(t) }},
		{"rollback", repository + ":" + tag, func() { c.helm(t, "", "rollback", "dnsconfigurer", "1"); c.rollouts(t) }},
		{"to a digest", byDigest[0], func() { c.image = "image.digest=" + byDigest[1]; c.install(t) }},
	} {
		begin := time.Now()
		c.during(t, step.change)
		since(t, step.name, begin)
		await(t, step.name+": pods with the image", func() error {
			images := strings.Fields(c.run(t, "", "get", "pods", "--namespace", "kube-system", "--output",
				"jsonpath={.items[*].spec.containers[*].image}"))
			if slices.ContainsFunc(images, func(image string) bool { return image != step.want }) {
				return fmt.Errorf("the images are %q, want %s", images, step.want)
			}
			return nil
		})
	}
}

// repository is the name of the image.
const repository = "registry.example/dnsconfigurer"

// ctr runs a command of "ctr images" for the images of the kubelet, and returns its output.
func (c *cluster) ctr(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("ctr", append([]string{"--namespace", "k8s.io", "images"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
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
		must.Succeed(t, errors.Join(c.api.Etcd.Start(), c.api.API.Start(), c.api.Ready(t.Context())))
	})
	c.create(t, newPod("afterwards", corev1.PodSpec{}))
	c.checkLookups(t, "afterwards")
}

// endContainer ends a container of a pod, and returns when another has started.
func (c *cluster) endContainer(t *testing.T, pod string) {
	t.Helper()
	id := must.Get(c.containerID(t, pod))(t)
	must.Get(c.runtime.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: id}))(t)
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
	id := must.Get(c.containerID(t, pod))(t)
	list, err := c.runtime.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.namespace": namespace, "io.kubernetes.pod.name": pod},
		State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}, // one that has ended may remain
	}})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d sandboxes of %s, %v", len(list.GetItems()), pod, err)
	}
	must.Get(c.runtime.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: list.Items[0].Id}))(t)
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
		must.Succeed(t, server.Start())
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
