// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

const shimAddress = "127.0.0.1:9199"

const shimHead = "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: ShimConfiguration\n"

const shimRefreshConfiguration = shimHead + `listen: unix://DIR/shim.sock
runtimeEndpoint: unix://DIR/containerd.sock
agent: unix://DIR/agent.sock
http: ` + shimAddress + nodeSettings

// TestShimRefresh changes the host's file under running pods of the shim and an agent, with a containerd
// without NRI, and with one whose NRI has no plugin.
func TestShimRefresh(t *testing.T) {
	nodetools.Install(t)
	program := process.Build(t)
	t.Run("containerd 1.6", func(t *testing.T) { testShimRefresh(t, newMachine(t, ""), program) })
	t.Run("containerd 2", func(t *testing.T) {
		testShimRefresh(t, newMachine(t, nodetools.BuildContainerd(t)+":"+nodetools.BuildRunc(t)), program)
	})
}

func testShimRefresh(t *testing.T, m *machine, program string) {
	n := newNRI(t, m, program, m.kubelet(t, filepath.Join(m.dir, "shim.sock")))
	m.write(t, "shim.yaml", strings.ReplaceAll(shimRefreshConfiguration, "DIR", m.dir))
	m.write(t, "agent.yaml", strings.ReplaceAll(agentConfiguration, "DIR", m.dir))
	must.Succeed(t, os.Mkdir(filepath.Join(m.dir, "manifests"), 0o755))
	start := func() (pid string) {
		pid = n.spawn(t, unprivileged+n.program+` shim --config "$DIR/shim.yaml"`, "shim.log")
		n.await(t, shimAddress, "/livez")
		return pid
	}
	n.startAgent(t)
	shim := start()
	n.await(t, agentAddress, "/readyz")
	t.Run("refresh", n.testRefresh)
	t.Run("containers", n.testContainers)
	if m.programs != "" { // containerd 1.6 ignores user namespaces, and has no events
		t.Run("user namespace", n.testUserNamespace)
		t.Run("events", n.testEvents)
	}
	t.Run("first write", n.testFirstWrite)
	t.Run("restart", func(t *testing.T) {
		want := map[string]resolvconf.Config{}
		run := func(name, annotation string, spec corev1.PodSpec, second resolvconf.Config) {
			p := nriPod(name, spec, annotation)
			container := n.startPod(t, p)
			n.awaitPod(t, p.Name, decided)
			want[container] = second
		}
		autopath := n.decide(n.hook(t), nriPod("autopath", corev1.PodSpec{}, "ClusterFirstWithAutopath"))
		// One of two files is enough. A runtime on a busy machine may create a file and write it late.
		run("restart-default", "", corev1.PodSpec{DNSPolicy: corev1.DNSDefault}, configOf(secondHost))
		run("restart-default-2", "", corev1.PodSpec{DNSPolicy: corev1.DNSDefault}, configOf(secondHost))
		run("restart-annotation", "Default", corev1.PodSpec{}, configOf(secondHost))
		run("restart-autopath", "ClusterFirstWithAutopath", corev1.PodSpec{}, autopath.Config())
		n.end(t, n.agent, "KILL")
		n.end(t, shim, "KILL")
		shim = start()
		n.startAgent(t)
		for _, pod := range []string{"restart-default", "restart-default-2", "restart-annotation", "restart-autopath"} {
			n.awaitPod(t, podName(pod), func(p v1alpha1.NodePod) bool { return p.Outcome == "unchanged" })
		}
		n.changeHost(t, secondHost, want)
		n.write(t, "etc/resolv.conf", hostResolvConf)
	})
	for _, pid := range []string{shim, n.agent} {
		if code := n.end(t, pid, "TERM"); code != "0" {
			t.Errorf("exit code %s", code)
		}
	}
}

// testEvents receives the events of a pod through the shim, as a kubelet does that has a stream of them.
func (n *nri) testEvents(t *testing.T) {
	ctx, cancel := within(t.Context())
	defer cancel()
	events := must.Get(n.runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{}))(t)
	container := n.startPod(t, nriPod("events", corev1.PodSpec{}, "")) // its sandbox starts later than the stream
	for {
		e, err := events.Recv()
		if err != nil {
			t.Fatalf("waiting for the start of %s: %v", container, err)
		}
		if e.ContainerId == container && e.ContainerEventType == runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT {
			return
		}
	}
}

// testFirstWrite: a pod that writes its file as soon as its first container runs is too late to have
// written the text that the runtime created.
func (n *nri) testFirstWrite(t *testing.T) {
	pod := nriPod("writes-first", corev1.PodSpec{DNSPolicy: corev1.DNSDefault}, "")
	ctx, cancel := within(t.Context())
	defer cancel()
	sandbox, config := n.startSandbox(ctx, t, pod)
	n.startIn(ctx, t, sandbox, config, nodetools.PauseImage, func(c *runtimeapi.ContainerConfig) {
		c.Command = []string{"/bin/busybox", "sh", "-c", "echo '# written' >>/etc/resolv.conf; exec /bin/busybox sleep 1000"}
	})
	path := n.awaitPod(t, pod.Name, func(p v1alpha1.NodePod) bool { return strings.Contains(p.Actual, "# written") }).Path
	path = filepath.Join("/proc", strconv.Itoa(n.init.Process.Pid), "root", path)
	f := must.Get(podfile.Open([]string{filepath.Dir(filepath.Dir(path))}, sandbox, path))(t)
	defer f.Close()
	if f.IsAsCreated() {
		t.Error("the file counts as the runtime created it")
	}
}
