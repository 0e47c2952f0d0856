// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
)

// testContainers runs several containers in one sandbox, on both networks: one that ends before the
// others start, as an init container, one with a read-only root, one of each C library, and one that
// is started again. All have the engine's file, and those that run follow the host's.
func (n *nri) testContainers(t *testing.T) {
	for _, network := range []string{"pod", "host"} {
		t.Run(network+" network", func(t *testing.T) {
			n.runContainers(t, nriPod("containers-"+network, corev1.PodSpec{HostNetwork: network == "host"}, "Default"))
		})
	}
}

func (n *nri) runContainers(t *testing.T, pod *corev1.Pod) {
	defer n.write(t, "etc/resolv.conf", hostResolvConf)
	ctx, cancel := within(t.Context())
	defer cancel()
	sandbox, config := n.startSandbox(ctx, t, pod)
	run := func(image, name string, attempt uint32, readOnly bool) string {
		t.Helper()
		return n.startIn(ctx, t, sandbox, config, image, func(c *runtimeapi.ContainerConfig) {
			c.Metadata = &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt}
			c.Linux.SecurityContext.ReadonlyRootfs = readOnly
		})
	}
	stop := func(container string) {
		t.Helper()
		must.Get(n.runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: container}))(t)
	}
	first := run(nodetools.PauseImage, "init", 0, false)
	n.awaitConfig(t, first, configOf(hostResolvConf))
	stop(first)
	readOnly, again := run(nodetools.PauseImage, "read-only", 0, true), run(nodetools.PauseImage, "again", 0, false)
	glibc, musl := run(nodetools.GlibcImage, "glibc", 0, false), run(nodetools.MuslImage, "musl", 0, false)
	want := map[string]resolvconf.Config{}
	for _, container := range []string{readOnly, again, glibc, musl} {
		n.awaitConfig(t, container, configOf(hostResolvConf))
		want[container] = configOf(secondHost)
	}
	if _, err := n.exec(ctx, readOnly, "/bin/busybox", "sh", "-c", "echo >>/etc/resolv.conf"); err == nil {
		t.Error("a container with a read-only root can write the file")
	}
	n.awaitPod(t, pod.Name, decided)
	n.changeHost(t, secondHost, want)
	n.checkLibrary(ctx, t, glibc, resolvconf.Glibc(secondHost))
	n.checkLibrary(ctx, t, musl, resolvconf.Musl(secondHost))
	stop(again)
	n.awaitConfig(t, run(nodetools.PauseImage, "again", 1, false), configOf(secondHost))
}

// checkLibrary compares how the C library in a container reads the file with want.
func (n *nri) checkLibrary(ctx context.Context, t *testing.T, container string, want resolvconf.Resolver) {
	t.Helper()
	out := must.Get(n.exec(ctx, container, "/bin/tell"))(t)
	if diff := cmp.Diff(parsed{fmt.Sprint(want.Nameservers), want.Search, fmt.Sprint(want.Ndots)}, parseOutput(t, out)); diff != "" {
		t.Errorf("the C library (-want +got):\n%s", diff)
	}
}

// testUserNamespace runs a pod with hostUsers: false. Its file has the engine's text from the start,
// follows the host's file, is created again after it was removed, and gets the kubelet's text by
// command. Root of the pod owns it all the time, and all of its users may read it.
func (n *nri) testUserNamespace(t *testing.T) {
	defer n.write(t, "etc/resolv.conf", hostResolvConf)
	no := false
	pod := nriPod("user-namespace", corev1.PodSpec{HostUsers: &no}, "Default")
	ctx, cancel := within(t.Context())
	defer cancel()
	sandbox, config := n.startSandbox(ctx, t, pod)
	run := func(name string, user int64) string {
		t.Helper()
		return n.startIn(ctx, t, sandbox, config, nodetools.PauseImage, func(c *runtimeapi.ContainerConfig) {
			c.Metadata.Name = name
			c.Linux.SecurityContext.RunAsUser = &runtimeapi.Int64Value{Value: user}
		})
	}
	first := run("first", 0)
	n.awaitConfig(t, first, configOf(hostResolvConf))
	n.checkUsers(ctx, t, first)
	path := n.awaitPod(t, pod.Name, decided).Path
	n.changeHost(t, secondHost, map[string]resolvconf.Config{first: configOf(secondHost)})
	n.checkUsers(ctx, t, first)

	must.Succeed(t, os.Remove(filepath.Join(fmt.Sprintf("/proc/%d/root", n.init.Process.Pid), path)))
	n.write(t, "etc/resolv.conf", thirdHost)
	n.awaitPod(t, pod.Name, func(p v1alpha1.NodePod) bool {
		return p.Drift == "" && configOf(p.Actual).Equal(configOf(thirdHost))
	})
	second := run("second", 1000)
	n.awaitConfig(t, second, configOf(thirdHost))
	n.checkUsers(ctx, t, second)

	if output, code := n.command(t, "restore shop/"+pod.Name); code != "0" {
		t.Errorf("exit code %s: %s", code, output)
	}
	n.awaitConfig(t, second, engine(t, facts()).KubeletConfig(kube.FromPod(pod), n.host()))
	n.checkUsers(ctx, t, second)
}

// usersScript prints the mapping of a user namespace, and the owner and the mode of the file.
const usersScript = "busybox cat /proc/self/uid_map; busybox stat -c '%u %g %a' /etc/resolv.conf"

// checkUsers checks that a container runs in a user namespace, and that root in it owns its file.
func (n *nri) checkUsers(ctx context.Context, t *testing.T, container string) {
	t.Helper()
	out, err := n.exec(ctx, container, "/bin/busybox", "sh", "-c", usersScript)
	ids := podUsers().Uids[0]
	want := fmt.Sprintf("%d %d %d 0 0 644", ids.ContainerId, ids.HostId, ids.Length)
	if got := strings.Join(strings.Fields(out), " "); err != nil || got != want {
		t.Errorf("users and file: %q, want %q: %v", got, want, err)
	}
}
