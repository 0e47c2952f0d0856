// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// TestKubelet runs a real kubelet, where TestNode simulates one. The kubelet reads static
// pods, and runs them first without a shim and then through one. `make test-unit` skips
// it because the build of a kubelet takes minutes.
func TestKubelet(t *testing.T) {
	nodetools.Install(t)
	kubelet, dnsconfigurer := nodetools.BuildTool(t, "test/cluster", "kubelet"), process.Build(t, t.TempDir())
	for _, c := range []struct{ name, programs, gates string }{
		{"Debian's containerd", "", ""},
		{"containerd 2", nodetools.BuildContainerd(t), eventedPLEG},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // a kubelet mostly waits
			m := newMachine(t, c.programs)
			t.Cleanup(func() { m.timings.report(t) })
			testKubelet(t, newStandalone(t, m, kubelet, c.gates), newCommand(t, m, dnsconfigurer))
		})
	}
}

// eventedPLEG lets the kubelet receive container events as a stream, in addition to its
// polls.
const eventedPLEG = "EventedPLEG: true, PLEGOnDemandRelist: true"

func testKubelet(t *testing.T, k *standalone, c *command) {
	pods := staticPods()
	for _, pod := range pods {
		k.write(t, pod)
	}
	k.start(t)
	direct := k.views(t, pods)
	k.stop(t)
	k.removePods(t)

	c.start(t)
	k.endpoint = c.socket()
	k.start(t)
	through := k.views(t, pods)

	n := node{k, c, direct}
	t.Run("settings", func(t *testing.T) { n.testSettings(t, pods, through) })
	t.Run("streams", n.testStreams)
	t.Run("liveness", n.testLiveness)
	if k.gates == eventedPLEG {
		t.Run("events", n.testEvents)
	}
	t.Run("changed manifest", n.testChangedManifest)
	t.Run("restarts", n.testRestarts)
	t.Run("stale facts", n.testStaleFacts)
}

// node is a kubelet with a shim between it and the runtime.
type node struct {
	*standalone
	shim   *command
	direct map[string]view // what pods saw without the shim, by name
}

const (
	namespace     = "shop"
	containerName = "main"
)

// restarted is the pod whose container the kubelet probes every second, and starts again
// when the probe fails.
const restarted = "autopath-" + nodeName

// staticPods returns manifests, by the names that the kubelet gives to their pods.
func staticPods() map[string]*corev1.Pod {
	yes := true
	pods := map[string]*corev1.Pod{}
	for name, spec := range map[string]corev1.PodSpec{
		"default":                {DNSPolicy: corev1.DNSDefault},
		"default-and-more":       {DNSPolicy: corev1.DNSDefault, DNSConfig: dnsConfig()},
		"cluster-first":          {},
		"cluster-first-and-more": {DNSConfig: dnsConfig()},
		"host-network":           {HostNetwork: true},
		"with-host-net":          {HostNetwork: true, DNSPolicy: corev1.DNSClusterFirstWithHostNet, DNSConfig: dnsConfig()},
		"none":                   {DNSPolicy: corev1.DNSNone, DNSConfig: dnsConfig()},
		"hostname":               {Hostname: "one", Subdomain: "web"},
		"fqdn":                   {Hostname: "one", Subdomain: "web", SetHostnameAsFQDN: &yes},
	} {
		pods[podName(name)] = staticPod(name, spec)
	}
	for name, spec := range map[string]corev1.PodSpec{
		"autopath":               {DNSConfig: dnsConfig()},
		"autopath-with-host-net": {HostNetwork: true, DNSPolicy: corev1.DNSClusterFirstWithHostNet},
	} {
		pods[podName(name)] = withAutopath(staticPod(name, spec))
	}
	pods[restarted].Spec.Containers[0].LivenessProbe = probe("test", "!", "-e", "/dead")
	return pods
}

func podName(manifest string) string { return manifest + "-" + nodeName }

// staticPod returns a manifest. Its pod writes a line, and is ready when it can run
// commands.
func staticPod(name string, spec corev1.PodSpec) *corev1.Pod {
	pod := newPod(name, spec)
	pod.UID = "" // the kubelet computes it from the manifest
	second, none := int64(1), false
	pod.Spec.TerminationGracePeriodSeconds = &second
	pod.Spec.AutomountServiceAccountToken, pod.Spec.EnableServiceLinks = &none, &none
	pod.Spec.Containers = []corev1.Container{{
		Name: containerName, Image: nodetools.PauseImage, ImagePullPolicy: corev1.PullNever,
		Command:      []string{"/bin/busybox", "sh", "-c", "echo started && exec busybox sleep 1000000"},
		Env:          []corev1.EnvVar{{Name: "PATH", Value: "/bin"}},
		StartupProbe: probe("true"),
	}}
	return pod
}

func probe(command ...string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: append([]string{"/bin/busybox"}, command...)}},
		PeriodSeconds: 1, FailureThreshold: 1, TimeoutSeconds: 60, // a busy machine is slow to run a command
	}
}

func withAutopath(pod *corev1.Pod) *corev1.Pod {
	return withAnnotation(pod, policy.OverrideAnnotation, "ClusterFirstWithAutopath")
}

func manifestText(t testing.TB, pod *corev1.Pod) []byte {
	t.Helper()
	typed := pod.DeepCopy()
	typed.APIVersion, typed.Kind = "v1", "Pod"
	text, err := json.Marshal(typed)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// write writes a manifest to the kubelet's directory atomically. It returns the pod's
// name.
func (k *standalone) write(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	dir := filepath.Join(k.dir, "manifests")
	hidden, path := filepath.Join(dir, "."+pod.Name), filepath.Join(dir, pod.Name+".yaml")
	if err := os.WriteFile(hidden, manifestText(t, pod), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(hidden, path); err != nil {
		t.Fatal(err)
	}
	return podName(pod.Name)
}

// await waits until good is true for a pod of the kubelet, and returns the pod. what
// describes good.
func (k *standalone) await(t *testing.T, name, what string, good func(corev1.Pod) bool) corev1.Pod {
	t.Helper()
	var pod corev1.Pod
	if err := poll(func() error {
		pods, err := k.pods()
		if err != nil {
			return err
		}
		var there bool
		if pod, there = pods[name]; !there || !good(pod) {
			return fmt.Errorf("pod %s is not %s: %+v", name, what, pod.Status)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return pod
}

func isReady(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// view waits until a pod is ready and returns what it sees.
func (k *standalone) view(t *testing.T, name string) view {
	t.Helper()
	k.await(t, name, "ready", isReady)
	ctx, cancel := within(t.Context())
	defer cancel()
	out, err := k.exec(ctx, name, "/bin/busybox", "sh", "-c", viewScript)
	if err != nil {
		t.Fatal(err)
	}
	v, err := parseView(out)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (k *standalone) views(t *testing.T, pods map[string]*corev1.Pod) map[string]view {
	t.Helper()
	start := time.Now()
	views := map[string]view{}
	for name := range pods {
		views[name] = k.view(t, name)
	}
	k.timings.add(fmt.Sprintf("%d static pods", len(pods)), start)
	return views
}

func restarts(containers []corev1.ContainerStatus) (n int32) {
	for _, c := range containers {
		n += c.RestartCount
	}
	return n
}

// running returns the containers of all pods.
func (n node) running(t *testing.T) map[string][]corev1.ContainerStatus {
	t.Helper()
	pods, err := n.pods()
	if err != nil {
		t.Fatal(err)
	}
	running := map[string][]corev1.ContainerStatus{}
	for name, pod := range pods {
		running[name] = pod.Status.ContainerStatuses
	}
	return running
}

// checkKubelets checks that v is the kubelet's result for pod, which has no annotation of
// the project.
func (n node) checkKubelets(t *testing.T, v view, pod *corev1.Pod) {
	t.Helper()
	dns, hostname := n.shim.render(t, pod)
	slices.Sort(dns.Options)
	if diff := cmp.Diff([]any{dns, hostname, hostname, hostname}, sorted(v)); diff != "" {
		t.Errorf("the kubelet's (-render +the pod):\n%s", diff)
	}
}

// sorted returns v with its options in order: the kubelet's order is random.
func sorted(v view) any {
	dns := v.config()
	slices.Sort(dns.Options)
	return []any{dns, v.Hostname, v.HostnameEnv, v.HostnameFile}
}

// testSettings compares the views of pods with and without the shim, and both with the
// output of render.
func (n node) testSettings(t *testing.T, pods map[string]*corev1.Pod, through map[string]view) {
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		t.Run(name, func(t *testing.T) {
			pod, plain := pods[name], pods[name].DeepCopy()
			dns, hostname := n.shim.render(t, pod)
			checkView(t, through[name], dns, hostname)
			delete(plain.Annotations, policy.OverrideAnnotation)
			n.checkKubelets(t, n.direct[name], plain)
			_, overridden := pod.Annotations[policy.OverrideAnnotation]
			if same := cmp.Equal(sorted(n.direct[name]), sorted(through[name])); same == overridden {
				t.Errorf("the same with and without the shim: %v\n%s\n%s", same, n.direct[name].ResolvConf, through[name].ResolvConf)
			}
		})
	}
	for outcome := range n.shim.decisions(t) {
		if outcome != "edited" && outcome != "unchanged" { // which of them: the kubelet's order of options is random
			t.Errorf("the shim counted %s", outcome)
		}
	}
	for name, containers := range n.running(t) {
		if restarts(containers) != 0 {
			t.Errorf("the container of %s was restarted", name)
		}
	}
}

// testStreams covers the requests that are not answered by one message: logs are files,
// commands a stream to the runtime.
func (n node) testStreams(t *testing.T) {
	for name := range n.direct {
		if log, err := n.logs(name); err != nil || log != "started\n" {
			t.Errorf("the log of %s: %q, %v", name, log, err)
		}
	}
	ctx, cancel := within(t.Context())
	defer cancel()
	const size = 3 << 20
	out, err := n.exec(ctx, podName("none"), "/bin/busybox", "head", "-c", fmt.Sprint(size), "/dev/zero")
	if err != nil || len(out) != size {
		t.Errorf("%d bytes received, %v", len(out), err)
	}
	if _, err := n.exec(ctx, podName("none"), "/bin/busybox", "false"); err == nil || !strings.Contains(err.Error(), "exit code 1") {
		t.Errorf("a command that fails: %v", err)
	}
}

// testLiveness restarts a container in its sandbox by a failing probe.
func (n node) testLiveness(t *testing.T) {
	before := n.view(t, restarted)
	ctx, cancel := within(t.Context())
	defer cancel()
	if _, err := n.exec(ctx, restarted, "/bin/busybox", "touch", "/dead"); err != nil {
		t.Fatal(err)
	}
	n.await(t, restarted, "restarted", func(p corev1.Pod) bool { return restarts(p.Status.ContainerStatuses) == 1 && isReady(p) })
	if diff := cmp.Diff(before, n.view(t, restarted)); diff != "" {
		t.Errorf("the container sees (-before +after its restart):\n%s", diff)
	}
}

// testEvents checks the kubelet's stream of container events: it was opened once, never
// failed, and had events.
func (n node) testEvents(t *testing.T) {
	body, err := n.get("/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	metrics := map[string]string{}
	for line := range strings.Lines(string(body)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		metrics[series] = value
	}
	const prefix = "kubelet_evented_pleg_connection_"
	if s, e := metrics[prefix+"success_count"], metrics[prefix+"error_count"]; s != "1" || e != "0" {
		t.Errorf("%s streams were opened, %s failed; want 1 and 0", s, e)
	}
	if events := metrics[prefix+"latency_seconds_count"]; events == "" || events == "0" {
		t.Errorf("the stream had %q events", events)
	}
}
