// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
)

// kubelet simulates the machine's kubelet for a runtime: containerd or a shim.
type kubelet struct {
	runtime runtimeapi.RuntimeServiceClient
	cgroup  string
}

func (m *machine) kubelet(t testing.TB, socket string) kubelet {
	t.Helper()
	return kubelet{runtimeapi.NewRuntimeServiceClient(connect(t, socket)), m.cgroup}
}

// sandboxOf returns a kubelet's request for pod. A kubelet ignores the annotations of the
// project, and the engine without them computes the kubelet's result (proved in
// test/cluster).
func (k kubelet) sandboxOf(e *policy.Engine, host resolvconf.File, pod *corev1.Pod) *runtimeapi.PodSandboxConfig {
	p := kube.FromPod(pod)
	p.Override = ""
	d := e.Decide(p, host)
	dns := d.Config()
	labels := map[string]string{"io.kubernetes.pod.name": pod.Name,
		"io.kubernetes.pod.namespace": pod.Namespace, "io.kubernetes.pod.uid": string(pod.UID)}
	maps.Copy(labels, pod.Labels)
	annotations := map[string]string{"kubernetes.io/config.seen": "2026-11-21T05:29:22.000000000Z", "kubernetes.io/config.source": "api"}
	maps.Copy(annotations, pod.Annotations)
	network := runtimeapi.NamespaceMode_POD
	if pod.Spec.HostNetwork {
		network = runtimeapi.NamespaceMode_NODE
	}
	var users *runtimeapi.UserNamespace
	if pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers {
		users = podUsers()
	}
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID)},
		Hostname:     d.Hostname,
		LogDirectory: fmt.Sprintf("/var/log/pods/%s_%s_%s", pod.Namespace, pod.Name, pod.UID),
		DnsConfig:    &runtimeapi.DNSConfig{Servers: dns.Nameservers, Searches: dns.Searches, Options: dns.Options},
		Labels:       labels,
		Annotations:  annotations,
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: fmt.Sprintf("%s/pod%s", k.cgroup, pod.UID),
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{
					Network: network, Pid: runtimeapi.NamespaceMode_CONTAINER, UsernsOptions: users,
				},
			},
		},
	}
}

// podUsers returns the user namespace of a pod with hostUsers: false. A kubelet gives each pod
// another range of the same length.
func podUsers() *runtimeapi.UserNamespace {
	ids := []*runtimeapi.IDMapping{{HostId: 1 << 17, ContainerId: 0, Length: 1 << 16}}
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: ids, Gids: ids}
}

// view is what a process in a container sees.
type view struct {
	Hostname     string // the kernel's
	HostnameEnv  string // $HOSTNAME
	HostnameFile string // /etc/hostname
	ResolvConf   string // /etc/resolv.conf
}

const viewScript = `set -e
busybox hostname
echo "$HOSTNAME"
busybox cat /etc/hostname
busybox cat /etc/resolv.conf`

// config returns the DNS configuration in v.
func (v view) config() resolvconf.Config { return resolvconf.Parse(v.ResolvConf).Config() }

// runPod runs a pod with one container from its start to its end, and returns the view of
// the container.
func (k kubelet) runPod(ctx context.Context, config *runtimeapi.PodSandboxConfig) (v view, err error) {
	ctx, cancel := within(ctx)
	defer cancel()
	sandbox, err := k.start(ctx, config)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, k.remove(ctx, sandbox)) }()
	container, err := k.startContainer(ctx, sandbox, config, nodetools.PauseImage)
	if err != nil {
		return v, err
	}
	return k.view(ctx, container)
}

func (k kubelet) start(ctx context.Context, config *runtimeapi.PodSandboxConfig) (sandbox string, err error) {
	r, err := k.runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		return "", fmt.Errorf("starting the sandbox of %s: %w", config.Metadata.Name, err)
	}
	return r.PodSandboxId, nil
}

// startContainer starts a container of image in a sandbox. Each of change changes its configuration
// before.
func (k kubelet) startContainer(ctx context.Context, sandbox string, config *runtimeapi.PodSandboxConfig,
	image string, change ...func(*runtimeapi.ContainerConfig)) (container string, err error) {
	users := config.Linux.SecurityContext.NamespaceOptions.UsernsOptions // a container must have those of its pod
	c := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: strings.NewReplacer("/", "-", ":", "-").Replace(image),
			Attempt: config.Metadata.Attempt},
		Image: &runtimeapi.ImageSpec{Image: image},
		Envs:  []*runtimeapi.KeyValue{{Key: "PATH", Value: []byte("/bin")}},
		Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{UsernsOptions: users},
		}},
	}
	for _, f := range change {
		f(c)
	}
	created, err := k.runtime.CreateContainer(ctx,
		&runtimeapi.CreateContainerRequest{PodSandboxId: sandbox, SandboxConfig: config, Config: c})
	if err != nil {
		return "", fmt.Errorf("creating a container of %s: %w", config.Metadata.Name, err)
	}
	if _, err = k.runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: created.ContainerId}); err != nil {
		return "", fmt.Errorf("starting a container of %s: %w", config.Metadata.Name, err)
	}
	return created.ContainerId, nil
}

func (k kubelet) view(ctx context.Context, container string) (view, error) {
	out, err := k.exec(ctx, container, "/bin/busybox", "sh", "-c", viewScript)
	if err != nil {
		return view{}, err
	}
	part := strings.SplitN(out, "\n", 4)
	if len(part) != 4 {
		return view{}, fmt.Errorf("unexpected output of a container: %q", out)
	}
	return view{part[0], part[1], part[2], part[3]}, nil
}

func (k kubelet) exec(ctx context.Context, container string, command ...string) (string, error) {
	r, err := k.runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: container, Cmd: command, Timeout: int64(patience.Seconds())})
	if err != nil {
		return "", fmt.Errorf("running %q: %w", command, err)
	}
	if r.ExitCode != 0 {
		return "", fmt.Errorf("running %q: exit code %d\n%s%s", command, r.ExitCode, r.Stdout, r.Stderr)
	}
	return string(r.Stdout), nil
}

// remove removes a pod as a kubelet does, its containers before the sandbox: containerd stays blocked
// if an NRI plugin registers while RemovePodSandbox removes a container (docs/nodes.md).
func (k kubelet) remove(ctx context.Context, sandbox string) error {
	if _, err := k.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox}); err != nil {
		return err
	}
	containers, err := k.runtime.ListContainers(ctx,
		&runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: sandbox}})
	if err != nil {
		return err
	}
	for _, c := range containers.Containers {
		if _, err := k.runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: c.Id}); err != nil {
			return err
		}
	}
	_, err = k.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox})
	return err
}
