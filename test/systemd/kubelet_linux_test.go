// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// kubeletUnit has the flags in the order of kubeadm's unit.
const kubeletUnit = `[Unit]
After=containerd.service
StartLimitIntervalSec=0
[Service]
EnvironmentFile=-/etc/default/kubelet
ExecStart=/usr/local/bin/kubelet --config=/etc/kubernetes/kubelet.yaml --hostname-override=node1 --node-ip=192.0.2.1 --v=2 $KUBELET_EXTRA_ARGS
Restart=always
RestartSec=1s
[Install]
WantedBy=multi-user.target
`

// kubeletConfiguration has the node facts of shimConfig.
const kubeletConfiguration = nodetools.KubeletConfiguration + `
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
resolvConf: ""
staticPodPath: /etc/kubernetes/manifests
address: 127.0.0.1
`

// prepareNode runs before containerd at each boot: the node's address, copies of the kernel's
// settings, and the kubelet's root cgroup, which must exist with all controllers. systemd-nspawn
// mounts the controllers of cgroup version 1 read-only, except its own.
const prepareNode = `#!/bin/sh -e
ip link set lo up
ip addr replace 192.0.2.1/32 dev lo
` + nodetools.CopyKernelSettings + `cd /sys/fs/cgroup
if [ -e cgroup.controllers ]; then
  for c in $(cat cgroup.controllers); do
    echo +$c >cgroup.subtree_control || true # as runc does
  done
  mkdir -p .CGROUP
  exit
fi
for tree in *; do
  [ -d $tree ] && [ ! -L $tree ] || continue
  mount -o remount,rw,bind $tree || true
  mkdir -p $tree/CGROUP
done
`

// The images are imported at each boot, because /var/lib/containerd is in memory.
const containerdDropIn = `[Service]
ExecStartPre=/usr/local/bin/prepare-node
ExecStartPost=/usr/bin/ctr --namespace k8s.io images import /root/images.tar
`

// At the end of a shutdown, systemd waits for the processes of pods, which ignore SIGTERM.
const shortShutdown = "[Manager]\nDefaultTimeoutStopSec=10s\n"

const kubeletServer = "https://127.0.0.1:10250"

// fetch prints a document of the kubelet's server. It runs on the machine.
func fetch(path string) error {
	client := http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, // self-signed
	}
	r, err := client.Get(kubeletServer + path)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return errors.New(r.Status)
	}
	_, err = io.Copy(os.Stdout, r.Body)
	return err
}

// kubelet is the kubelet of the machine, with static pods.
type kubelet struct {
	*machine
	process string              // "": the next check finds a new one
	seen    map[string]podState // all pods
	calls   calls               // of process
	rows    []string
}

// podState changes if a pod was not ready, or restarted a container. A kubelet that restarts
// forgets since when a pod is ready.
type podState struct {
	container  string
	readySince time.Time
}

// calls are the CRI calls of a process of the kubelet.
type calls struct {
	all, failed int
	errors      map[string]int // by operation
}

// newKubelet writes the files of a kubelet that is not running yet.
func newKubelet(t *testing.T, m *machine) *kubelet {
	t.Helper()
	run(t, "cp", process.BuildTool(t, "test/cluster", "kubelet"), filepath.Join(m.root, "usr/local/bin/kubelet"))
	run(t, "cp", nodetools.BuildImages(t, t.TempDir()), filepath.Join(m.root, "root/images.tar"))
	m.installClient(t)
	nodetools.GuardKernelSettings(t)
	withCgroup := strings.NewReplacer("CGROUP", m.cgroup).Replace
	m.write(t, "etc/systemd/system/kubelet.service", kubeletUnit, 0o644)
	m.write(t, "etc/systemd/system/containerd.service.d/test.conf", containerdDropIn, 0o644)
	m.write(t, "etc/systemd/system.conf.d/test.conf", shortShutdown, 0o644)
	m.write(t, "usr/local/bin/prepare-node", withCgroup(prepareNode), 0o755)
	m.write(t, "etc/containerd/config.toml", nodetools.ContainerdConfig, 0o644)
	m.write(t, "etc/cni/net.d/pods.conflist", nodetools.BridgeNetwork, 0o644)
	m.write(t, "etc/kubernetes/kubelet.yaml", withCgroup(kubeletConfiguration), 0o644)
	return &kubelet{machine: m, seen: map[string]podState{}}
}

// fetch returns a document of the kubelet's server.
func (k *kubelet) fetch(path string) ([]byte, error) {
	out, err := k.command("env", "KUBELET_PATH="+path, "client").Output()
	if err != nil {
		err = fmt.Errorf("%s of the kubelet: %w: %s", path, err, out)
	}
	return out, err
}

// states returns the states of all pods, by name, or an error if one of them is not ready.
func (k *kubelet) states() (map[string]podState, error) {
	text, err := k.fetch("/pods")
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	states := map[string]podState{}
	for _, pod := range list.Items {
		ready := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero()
		})
		if ready < 0 || len(pod.Status.ContainerStatuses) != 1 {
			return nil, fmt.Errorf("pod %s is not ready: %+v", pod.Name, pod.Status)
		}
		states[pod.Name] = podState{pod.Status.ContainerStatuses[0].ContainerID,
			pod.Status.Conditions[ready].LastTransitionTime.Time}
	}
	return states, nil
}

// operations returns the CRI calls of the kubelet's process until now.
func (k *kubelet) operations(t *testing.T) calls {
	t.Helper()
	text := must.Get(k.fetch("/metrics"))(t)
	c := calls{errors: map[string]int{}}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), `{operation_type="`)
		operation, value, _ := strings.Cut(rest, `"} `)
		n, err := strconv.Atoi(value)
		switch {
		case err != nil: // another metric
		case name == "kubelet_runtime_operations_total":
			c.all += n
		case name == "kubelet_runtime_operations_errors_total":
			c.failed += n
			c.errors[operation] = n
		}
	}
	return c
}

// staticPod is a manifest. The kubelet runs the probe each second through the runtime; a call that
// fails is not a result of the probe.
const staticPod = `apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: shop}
spec:
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  enableServiceLinks: false
  containers:
  - name: main
    image: ` + nodetools.PauseImage + `
    imagePullPolicy: Never
    command: [/bin/busybox, sleep, "1000000"]
    readinessProbe:
      exec: {command: [/bin/busybox, "true"]}
      periodSeconds: 1
      timeoutSeconds: 60
`

// startPod writes the manifest of a new pod.
func (k *kubelet) startPod(t *testing.T) {
	t.Helper()
	name := fmt.Sprintf("pod%d", len(k.seen))
	k.write(t, "etc/kubernetes/manifests/"+name+".yaml", strings.ReplaceAll(staticPod, "NAME", name), 0o644)
	k.seen[name+"-node1"] = podState{}
}

// reboot expects new containers of all pods.
func (k *kubelet) reboot() {
	k.expectRestart()
	for name := range k.seen {
		k.seen[name] = podState{}
	}
}

// expectRestart lets the next check find another process of the kubelet.
func (k *kubelet) expectRestart() { k.process = "" }

// check starts a pod and returns when it is ready. It fails if another pod was not ready since the
// last check, or restarted, and returns the number of the kubelet's failed CRI calls since then.
func (k *kubelet) check(t *testing.T, step string) int {
	t.Helper()
	k.startPod(t)
	process := strings.TrimSpace(k.run(t, "systemctl", "show", "--value", "-p", "MainPID", "kubelet"))
	restarted, before := k.process == "", k.calls
	if restarted {
		k.process, before = process, calls{}
	}
	if process != k.process {
		t.Fatalf("%s: the kubelet has ended", step)
	}
	var states map[string]podState
	if err := k.poll(func() (err error) {
		if states, err = k.states(); err == nil && len(states) != len(k.seen) {
			err = fmt.Errorf("the kubelet has %d pods, want %d", len(states), len(k.seen))
		}
		return err
	}); err != nil {
		t.Fatalf("%s: %v", step, err)
	}
	for name, last := range k.seen {
		state := states[name]
		if last == (podState{}) {
			continue // a new one
		}
		if state.container != last.container || !restarted && !state.readySince.Equal(last.readySince) {
			t.Errorf("%s: pod %s was restarted or not ready: %+v, before: %+v", step, name, state, last)
		}
	}
	k.seen, k.calls = states, k.operations(t)
	failed := k.calls.failed - before.failed
	k.addRow(step, restarted, before)
	return failed
}

// addRow adds a row to the table. The calls of a new process are those since its start.
func (k *kubelet) addRow(step string, restarted bool, before calls) {
	process := "the same"
	if restarted {
		process = "new"
	}
	var failed []string
	for _, operation := range slices.Sorted(maps.Keys(k.calls.errors)) {
		if n := k.calls.errors[operation] - before.errors[operation]; n > 0 {
			failed = append(failed, fmt.Sprintf("%d %s", n, operation))
		}
	}
	k.rows = append(k.rows, fmt.Sprintf("| %s | %s | %d | %d | %d | %s |", step, process, len(k.seen),
		k.calls.all-before.all, k.calls.failed-before.failed, strings.Join(failed, ", ")))
}

// report logs the table.
func (k *kubelet) report(t *testing.T) {
	t.Helper()
	t.Logf("| step | kubelet | ready pods | CRI calls | failed | operations |\n|---|---|---|---|---|---|\n%s",
		strings.Join(k.rows, "\n"))
}
