// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
)

// toolPods returns pods with the kubelet's DNS, and with that of the engine.
func toolPods() []*corev1.Pod {
	return []*corev1.Pod{
		nriPod("tools", corev1.PodSpec{}, ""),
		nriPod("tools-host-network", corev1.PodSpec{HostNetwork: true, DNSPolicy: corev1.DNSDefault}, ""),
		nriPod("tools-autopath", corev1.PodSpec{}, "ClusterFirstWithAutopath"),
	}
}

// transcripts returns what crictl, critest and other clients of CRI see of pods, by their names.
func (n *nri) transcripts(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, pod := range toolPods() {
		all[pod.Name] = transcribe(t, n.runtime, n.sandboxOf(engine(t, facts()), n.host(), pod))
	}
	return all
}

// transcribe runs a pod from its start to its end, with valid and invalid calls, and returns the
// results: the calls of crictl info, runp, inspectp, create, inspect, start, ps, pods, exec,
// update, stop, rm, stopp and rmp, in an order that critest has for its containers.
func transcribe(t *testing.T, runtime runtimeapi.RuntimeServiceClient, config *runtimeapi.PodSandboxConfig) []string {
	t.Helper()
	ctx, cancel := within(t.Context())
	defer cancel()
	w := &transcript{t: t, ctx: ctx, runtime: runtime}
	record(w, runtime.Version, &runtimeapi.VersionRequest{})
	record(w, runtime.Status, &runtimeapi.StatusRequest{Verbose: true})
	sandbox := record(w, runtime.RunPodSandbox, &runtimeapi.RunPodSandboxRequest{Config: config}).GetPodSandboxId()
	record(w, runtime.RunPodSandbox, &runtimeapi.RunPodSandboxRequest{Config: config}) // its name is reserved
	w.sandbox(sandbox)
	create := &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox, SandboxConfig: config, Config: toolContainer("localhost/absent:1")}
	record(w, runtime.CreateContainer, create)
	create.Config = toolContainer(nodetools.PauseImage)
	container := record(w, runtime.CreateContainer, create).GetContainerId()
	record(w, runtime.CreateContainer, create)
	w.container(container)
	record(w, runtime.StartContainer, &runtimeapi.StartContainerRequest{ContainerId: container})
	record(w, runtime.StartContainer, &runtimeapi.StartContainerRequest{ContainerId: container})
	w.container(container)
	record(w, runtime.ListContainers, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: sandbox}})
	record(w, runtime.ListPodSandbox, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{Id: sandbox}})
	script := "busybox grep resolv.conf /proc/mounts; busybox stat -c '%F %a %u %g %h' /etc/resolv.conf; busybox touch /etc/resolv.conf"
	record(w, runtime.ExecSync, &runtimeapi.ExecSyncRequest{ContainerId: container, Cmd: []string{"/bin/busybox", "sh", "-c", script}})
	record(w, runtime.ExecSync, &runtimeapi.ExecSyncRequest{ContainerId: container, Cmd: []string{"/absent"}})
	record(w, runtime.UpdateContainerResources, &runtimeapi.UpdateContainerResourcesRequest{
		ContainerId: container, Linux: &runtimeapi.LinuxContainerResources{CpuShares: 512}})
	w.container(container)
	record(w, runtime.RemovePodSandbox, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: "absent"})
	record(w, runtime.StopContainer, &runtimeapi.StopContainerRequest{ContainerId: container})
	w.container(container)
	record(w, runtime.RemoveContainer, &runtimeapi.RemoveContainerRequest{ContainerId: container})
	w.container(container)
	record(w, runtime.StopPodSandbox, &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox})
	w.sandbox(sandbox)
	w.awaitStopped(sandbox)
	record(w, runtime.CreateContainer, create)
	record(w, runtime.RemovePodSandbox, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox})
	w.sandbox(sandbox)
	return w.lines
}

func toolContainer(image string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "tool"}, Image: &runtimeapi.ImageSpec{Image: image},
		Envs:  []*runtimeapi.KeyValue{{Key: "PATH", Value: []byte("/bin")}},
		Linux: &runtimeapi.LinuxContainerConfig{Resources: &runtimeapi.LinuxContainerResources{CpuShares: 256}},
	}
}

// transcript is a list of calls with their results.
type transcript struct {
	t       *testing.T
	ctx     context.Context
	runtime runtimeapi.RuntimeServiceClient
	lines   []string
	ids     []string // in the order in which they appear
}

func (w *transcript) sandbox(id string) {
	record(w, w.runtime.PodSandboxStatus, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
}

func (w *transcript) container(id string) {
	record(w, w.runtime.ContainerStatus, &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: true})
}

// awaitStopped returns when containerd creates no more containers in a sandbox. The state that its
// CreateContainer examines, which its list shows, follows StopPodSandbox and PodSandboxStatus a moment
// later.
func (w *transcript) awaitStopped(id string) {
	w.t.Helper()
	await(w.t, func() error {
		r, err := w.runtime.ListPodSandbox(w.ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{Id: id}})
		if err == nil && (len(r.Items) != 1 || r.Items[0].State != runtimeapi.PodSandboxState_SANDBOX_NOTREADY) {
			err = fmt.Errorf("the sandbox is not stopped: %v", r.Items)
		}
		return err
	})
}

// record calls a method of the runtime, and adds its name and its result, or its error.
func record[Q any, R any](w *transcript, method func(context.Context, Q, ...grpc.CallOption) (R, error), request Q) R {
	w.t.Helper()
	reply, err := method(w.ctx, request)
	text := must.Get(json.Marshal(reply))(w.t)
	w.lines = append(w.lines, w.normalize(fmt.Sprintf("%T: %s %q\n%s", request, status.Code(err), status.Convert(err).Message(), text)))
	return reply
}

// varying is what differs from one run of a pod to the next: times, processes, addresses, and
// network namespaces.
var varying = regexp.MustCompile(`\b\d{10,}\b|\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)|pid\\*":\d+|/proc/\d+/|10\.88\.0\.\d+|` +
	`cni-[0-9a-f-]{36}|([0-9a-f]{2}:){5}[0-9a-f]{2}|veth[0-9a-f]+|fe80::[0-9a-f:]+`)

var runtimeID = regexp.MustCompile(`[0-9a-f]{64}`)

// normalize replaces what varies, and each ID by its number.
func (w *transcript) normalize(text string) string {
	text = runtimeID.ReplaceAllStringFunc(text, func(id string) string {
		if !slices.Contains(w.ids, id) {
			w.ids = append(w.ids, id)
		}
		return fmt.Sprintf("ID%d", slices.Index(w.ids, id))
	})
	return varying.ReplaceAllString(text, "...")
}
