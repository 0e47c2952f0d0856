// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

const (
	agentAddress = "127.0.0.1:9198"
	relayAddress = "127.0.0.1:9197"
)

const agentConfiguration = `apiVersion: dnsconfigurer.dev/v1alpha1
kind: AgentConfiguration
listen: unix://DIR/agent.sock
http: ` + agentAddress + `
refresh: All` + nodeSettings

// nodeSettings are those of an agent and a shim.
const nodeSettings = `
manifests: DIR/manifests
node:
  clusterDNS: [10.96.0.10]
  clusterDomain: cluster.local
  resolvConf: /etc/resolv.conf
  nodeName: ` + nodeName + `
  allowedOverrides: [Default, None]
autopath:
  nodeCache: 169.254.20.10
`

// nri is a machine with the commands agent and nri, and a kubelet that uses containerd
// directly. Its pods are static pods.
type nri struct {
	*machine
	kubelet
	program      string
	agent, relay string // process IDs inside
	http         http.Client
	attempt      uint32 // of the next sandbox
	faults       []faultRow
}

func newNRI(t testing.TB, m *machine, program string, k kubelet) *nri {
	n := &nri{machine: m, program: program, kubelet: k}
	n.http.Timeout = time.Minute
	n.http.Transport = &http.Transport{DialContext: m.dial}
	t.Cleanup(n.http.CloseIdleConnections)
	return n
}

// TestNRI runs containerd with the NRI relay and the agent. Pods get the configuration of the engine,
// and start whatever happens to relay and agent.
func TestNRI(t *testing.T) {
	nodetools.Install(t)
	program := process.Build(t)
	m := newMachine(t, nodetools.BuildContainerd(t)+":"+nodetools.BuildRunc(t))
	n := newNRI(t, m, program, m.kubelet(t, m.endpoint()))
	m.write(t, "agent.yaml", strings.ReplaceAll(agentConfiguration, "DIR", m.dir))

	pods := nriPods()
	for _, pod := range toolPods() {
		n.writeManifest(t, pod)
	}
	direct := n.transcripts(t)
	n.startAgent(t)
	n.startRelay(t)
	t.Run("policies", func(t *testing.T) {
		for _, pod := range pods {
			d := n.decide(n.hook(t, pod), pod)
			t.Run(pod.Name, func(t *testing.T) { n.awaitConfig(t, n.startPod(t, pod), d.Config()) })
		}
		n.printCreate(t)
		n.printMemory(t)
	})
	t.Run("tools", func(t *testing.T) {
		if diff := cmp.Diff(direct, n.transcripts(t)); diff != "" {
			t.Errorf("-without +with agent and relay:\n%s", diff)
		}
	})
	t.Run("refresh", n.testRefresh)
	n.check(t, "none", func() {}, func() {})
	t.Run("faults", n.testFaults)
	t.Run("stops", n.testStops)
	t.Run("registration", n.testRegistration)
	t.Run("another sandbox", n.testSuccessor)
	t.Run("containers", n.testContainers)
	t.Run("user namespace", n.testUserNamespace)
	t.Run("other plugin", n.testOtherPlugin)
	t.Run("hostile", n.testHostile)
	t.Run("restart of containerd", func(t *testing.T) {
		n.killContainerd(t)
		n.awaitRuntimeLost(t)
		n.startContainerd(t)
		n.await(t, relayAddress, "/readyz")
		n.await(t, agentAddress, "/readyz")
		n.check(t, "after-containerd", func() {}, func() {})
	})
	t.Run("restarts and changes of the host", n.testRestarts)
	n.printFaults(t)
	for _, pid := range []string{n.relay, n.agent} {
		if code := n.end(t, pid, "TERM"); code != "0" {
			t.Errorf("exit code %s", code)
		}
	}
}

// nriPods returns static pods of each policy, on both networks.
func nriPods() (pods []*corev1.Pod) {
	for _, c := range []struct {
		name       string
		policy     corev1.DNSPolicy
		annotation string
	}{
		{"default", corev1.DNSDefault, ""},
		{"cluster-first", corev1.DNSClusterFirst, ""},
		{"cluster-first-with-host-net", corev1.DNSClusterFirstWithHostNet, ""},
		{"none", corev1.DNSNone, ""},
		{"autopath", corev1.DNSClusterFirst, "ClusterFirstWithAutopath"},
		{"default-by-annotation", corev1.DNSClusterFirst, "Default"},
	} {
		for _, network := range []string{"pod", "host"} {
			spec := corev1.PodSpec{DNSPolicy: c.policy, HostNetwork: network == "host"}
			if c.policy == corev1.DNSNone || network == "host" {
				spec.DNSConfig = dnsConfig()
			}
			pods = append(pods, nriPod(c.name+"-"+network, spec, c.annotation))
		}
	}
	return pods
}

// The namespace of pods, and the name of the container of a static pod.
const (
	namespace     = "shop"
	containerName = "main"
)

// podName returns the name of the pod of a manifest.
func podName(manifest string) string { return manifest + "-" + nodeName }

// nriPod returns a static pod as the kubelet has it.
func nriPod(name string, spec corev1.PodSpec, annotation string) *corev1.Pod {
	pod := withAnnotation(newPod(podName(name), spec), "kubernetes.io/config.source", "file")
	pod.Spec.Containers = []corev1.Container{{Name: containerName, Image: nodetools.PauseImage}}
	if annotation != "" {
		withAnnotation(pod, policy.OverrideAnnotation, annotation)
	}
	return pod
}

// writeManifest writes the manifest of a pod, whose name has no node name.
func (n *nri) writeManifest(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	p := pod.DeepCopy()
	p.Name, p.UID = strings.TrimSuffix(pod.Name, "-"+nodeName), ""
	p.APIVersion, p.Kind = "v1", "Pod"
	delete(p.Annotations, "kubernetes.io/config.source")
	text := must.Get(json.Marshal(p))(t)
	n.write(t, "manifests/"+p.Name+".yaml", string(text))
}

// unprivileged runs a command as the containers of deploy/agent do: root without capabilities,
// which can neither read nor write what it does not own.
const unprivileged = "setpriv --bounding-set=-all --inh-caps=-all --no-new-privs "

func (n *nri) startAgent(t testing.TB) {
	t.Helper()
	n.agent = n.spawn(t, unprivileged+n.program+` agent --config "$DIR/agent.yaml"`, "agent.log")
	n.await(t, agentAddress, "/livez")
}

func (n *nri) startRelay(t testing.TB) {
	t.Helper()
	n.spawnRelay(t)
	n.await(t, relayAddress, "/readyz")
}

// spawnRelay starts a relay, which may not be ready.
func (n *nri) spawnRelay(t testing.TB) {
	t.Helper()
	n.relay = n.spawn(t,
		unprivileged+n.program+` nri --socket /run/nri/nri.sock --agent "$DIR/agent.sock" --http `+relayAddress, "relay.log")
	n.await(t, relayAddress, "/livez")
}

func get(client *http.Client, url string) ([]byte, error) {
	r, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, r.Status, body)
	}
	return body, err
}

// await returns when the server at address has the page at path, such as "/readyz".
func (n *nri) await(t testing.TB, address, path string) {
	t.Helper()
	await(t, func() error { _, err := get(&n.http, "http://"+address+path); return err })
}

// awaitRuntimeLost waits until the agent reports that its relay has no runtime.
func (n *nri) awaitRuntimeLost(t testing.TB) {
	t.Helper()
	await(t, func() error {
		const want = "the NRI relay or shim is not connected to the container runtime"
		_, err := get(&n.http, "http://"+agentAddress+"/readyz")
		if err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("the agent without a runtime: %v, want %q", err, want)
		}
		return nil
	})
}

// startPod writes the manifest of pod, and starts it as a kubelet without a shim does. The pod is removed when
// t ends.
func (n *nri) startPod(t testing.TB, pod *corev1.Pod) (container string) {
	t.Helper()
	ctx, cancel := within(t.Context())
	defer cancel()
	sandbox, config := n.startSandbox(ctx, t, pod)
	return n.startIn(ctx, t, sandbox, config, nodetools.PauseImage)
}

// startIn is startContainer for a container that starts.
func (n *nri) startIn(ctx context.Context, t testing.TB, sandbox string, config *runtimeapi.PodSandboxConfig,
	image string, change ...func(*runtimeapi.ContainerConfig)) (container string) {
	t.Helper()
	container = must.Get(n.startContainer(ctx, sandbox, config, image, change...))(t)
	return container
}

// signal sends a signal to a process that spawn has started.
func (n *nri) signal(t *testing.T, pid, name string) {
	t.Helper()
	n.run(t, fmt.Sprintf("kill -%s %s && echo sent", name, pid))
}

// startSandbox writes the manifest of a pod, and starts it without containers. It is removed when t ends.
func (n *nri) startSandbox(ctx context.Context, t testing.TB, pod *corev1.Pod) (sandbox string, config *runtimeapi.PodSandboxConfig) {
	t.Helper()
	n.writeManifest(t, pod)
	config = n.sandboxOf(engine(t, facts()), n.host(), pod)
	config.Metadata.Attempt = n.attempt
	sandbox = must.Get(n.start(ctx, config))(t)
	t.Cleanup(func() {
		ctx, cancel := within(context.Background()) // t.Context has ended
		defer cancel()
		if err := n.remove(ctx, sandbox); err != nil {
			t.Error(err)
		}
	})
	return sandbox, config
}

// awaitConfig returns when a container has the configuration want: on a busy machine it may be
// written after the start.
func (n *nri) awaitConfig(t *testing.T, container string, want resolvconf.Config) {
	t.Helper()
	await(t, func() error {
		v, err := n.view(t.Context(), container)
		if diff := cmp.Diff(want, v.config()); err == nil && diff != "" {
			err = fmt.Errorf("resolv.conf (-want +got):\n%s", diff)
		}
		return err
	})
}

// check starts a pod with autopath between before and after. It starts in any case, with the
// kubelet's configuration or that of the engine, and has that of the engine in the end.
func (n *nri) check(t *testing.T, name string, before, after func()) {
	t.Helper()
	pod := nriPod(name, corev1.PodSpec{}, "ClusterFirstWithAutopath")
	n.writeManifest(t, pod)
	hook := n.hook(t, pod)
	d, k := n.decide(hook, pod), hook.Engine.KubeletConfig(kube.FromPod(pod), n.host())
	before()
	began := time.Now()
	container := n.startPod(t, pod)
	row := faultRow{fault: name, start: time.Since(began), first: "agent"}
	v := must.Get(n.view(t.Context(), container))(t)
	if got := v.config(); !got.Equal(d.Config()) {
		row.first = "kubelet"
		if !got.Equal(k) {
			t.Errorf("neither the engine's configuration nor the kubelet's:\n%s", v.ResolvConf)
		}
	}
	began = time.Now()
	after()
	n.awaitConfig(t, container, d.Config())
	row.follows = time.Since(began)
	n.faults = append(n.faults, row)
}

// faultRow is a row of the table of faults.
type faultRow struct {
	fault   string
	start   time.Duration // of sandbox and container
	first   string        // whose file the container has when it has started
	follows time.Duration // from the end of the fault until it has the agent's
}

// printFaults prints the times that docs/runbook.md summarizes.
func (n *nri) printFaults(t *testing.T) {
	var b strings.Builder
	b.WriteString("| fault while a pod starts | sandbox and container, ms | file at the start | the " +
		"agent's file after the fault, ms |\n|---|---|---|---|\n")
	slices.SortStableFunc(n.faults, func(x, y faultRow) int { return strings.Compare(x.fault, y.fault) })
	for _, r := range n.faults {
		fmt.Fprintf(&b, "| %s | %d | %s | %d |\n", r.fault, r.start.Milliseconds(), r.first, r.follows.Milliseconds())
	}
	t.Log("\n" + b.String())
}

// testFaults starts pods while the agent or the relay does not run or does not reply.
func (n *nri) testFaults(t *testing.T) {
	for name, c := range map[string]struct{ before, after func(*testing.T) }{
		"agent-is-killed": {func(t *testing.T) { n.end(t, n.agent, "KILL") }, func(t *testing.T) { n.startAgent(t) }},
		"agent-hangs":     {func(t *testing.T) { n.signal(t, n.agent, "STOP") }, func(t *testing.T) { n.signal(t, n.agent, "CONT") }},
		"agent-restarts": {func(t *testing.T) {
			n.end(t, n.agent, "TERM")
			n.startAgent(t)
		}, func(*testing.T) {}},
		"relay-is-killed": {func(t *testing.T) { n.end(t, n.relay, "KILL") }, func(t *testing.T) { n.startRelay(t) }},
		"relay-hangs":     {func(t *testing.T) { n.signal(t, n.relay, "STOP") }, func(t *testing.T) { n.signal(t, n.relay, "CONT") }},
	} {
		t.Run(name, func(t *testing.T) {
			n.check(t, name, func() { c.before(t) }, func() { c.after(t) })
		})
		n.await(t, relayAddress, "/readyz")
	}
}

// printCreate prints the time that the agent has added to the creation of a container, on average.
func (n *nri) printCreate(t *testing.T) {
	t.Helper()
	body := must.Get(get(&n.http, "http://"+agentAddress+"/metrics"))(t)
	var sum, count float64
	for line := range strings.Lines(string(body)) {
		_, _ = fmt.Sscanf(line, "dnsconfigurer_agent_create_seconds_sum %g", &sum)
		_, _ = fmt.Sscanf(line, "dnsconfigurer_agent_create_seconds_count %g", &count)
	}
	if count == 0 {
		t.Fatal("the agent was not asked for a container")
	}
	t.Logf("the agent has added %.2f ms to the creation of each of %.0f containers", 1000*sum/count, count)
}

// printMemory prints the memory of the relay beside the agent, a second process of the same program.
func (n *nri) printMemory(t *testing.T) {
	t.Helper()
	const script = "grep -E '^(Rss|Pss|Anonymous):' /proc/%s/smaps_rollup | tr -s ' \\n' ' ' && echo"
	t.Log("memory of the relay:", n.run(t, fmt.Sprintf(script, n.relay)))
}

// testSuccessor: the command pods prints a pod once after its sandbox was stopped and another one
// was started, as the kubelet does it, and again when the relay has restarted.
func (n *nri) testSuccessor(t *testing.T) {
	pod := nriPod("successor", corev1.PodSpec{}, "ClusterFirstWithAutopath")
	n.startPod(t, pod)
	first := n.awaitPod(t, pod.Name, decided).Sandbox
	ctx, cancel := within(t.Context())
	defer cancel()
	must.Get(n.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: first}))(t)
	n.attempt++
	n.startPod(t, pod)
	second := func(p v1alpha1.NodePod) bool { return p.Sandbox != first && decided(p) }
	n.awaitPod(t, pod.Name, second)
	n.end(t, n.relay, "KILL")
	n.startRelay(t)
	n.awaitPod(t, pod.Name, second)
}
