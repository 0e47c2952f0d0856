// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
)

// standalone is the kubelet of the Kubernetes release in test/cluster. It has no API
// server: its pods are the manifests of a directory.
type standalone struct {
	*machine
	program  string
	gates    string // feature gates, as in YAML
	endpoint string // of the runtime, or of a shim
	dns      string // the cluster DNS
	pid      string // inside; "": not running
	http     http.Client
}

// hostFile is the resolv.conf for pods. It differs from the machine's own, which runtimes
// use as the default.
const hostFile = "search corp.example node.example\nnameserver 192.0.2.54\noptions timeout:3 attempts:1\n"

const kubeletConfiguration = nodetools.KubeletConfiguration + `
featureGates: {GATES}
clusterDNS: [CLUSTERDNS]
clusterDomain: cluster.local
resolvConf: DIR/pods-resolv.conf
staticPodPath: DIR/manifests
containerRuntimeEndpoint: unix://ENDPOINT
address: 127.0.0.1
podLogsDir: DIR/pods
volumePluginDir: DIR/plugins
`

// nodeAddress is the node's address, which must not be a loopback address.
const nodeAddress = "192.0.2.1"

// forKubelet prepares the machine for a kubelet, beyond setup: copies of the kernel's
// settings, and a /var/log for the links to logs.
const forKubelet = `mount -t tmpfs tmpfs /var/log &&
{ ` + nodetools.CopyKernelSettings + `} &&
ip addr add ` + nodeAddress + `/32 dev lo &&
echo ready`

// newStandalone returns a kubelet for m that is not running yet.
func newStandalone(t *testing.T, m *machine, program, gates string) *standalone {
	t.Helper()
	k := &standalone{machine: m, program: program, gates: gates, endpoint: m.endpoint(), dns: "10.96.0.10"}
	k.http.Timeout = time.Minute
	k.http.Transport = &http.Transport{DialContext: m.dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // self-signed
	t.Cleanup(k.http.CloseIdleConnections)
	nodetools.GuardKernelSettings(t)
	m.run(t, forKubelet)
	if err := errors.Join(
		nodetools.MakeCgroup(m.cgroup),
		os.Mkdir(filepath.Join(m.dir, "manifests"), 0o755),
		os.WriteFile(filepath.Join(m.dir, "pods-resolv.conf"), []byte(hostFile), 0o644),
		os.WriteFile(filepath.Join(m.dir, "etc/passwd"), nil, 0o644), // without user IDs for pods
	); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *standalone) configFile() string { return filepath.Join(k.dir, "kubelet.yaml") }

// start starts the kubelet and returns when it is healthy.
func (k *standalone) start(t *testing.T) {
	t.Helper()
	text := strings.NewReplacer("DIR", k.dir, "GATES", k.gates, "ENDPOINT", k.endpoint, "CLUSTERDNS",
		k.dns, "CGROUP", k.cgroup).Replace(kubeletConfiguration)
	if err := os.WriteFile(k.configFile(), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	k.pid = k.spawn(t,
		k.program+` --config "$DIR/kubelet.yaml" --root-dir /var/lib/kubelet --cert-dir /var/lib/kubelet/pki --node-ip `+nodeAddress,
		"kubelet.log")
	if err := poll(func() error { _, err := k.get("/healthz", nil); return err }); err != nil {
		t.Fatalf("the kubelet does not start: %v", err)
	}
	k.timings.add("start of the kubelet", began)
}

// stop ends the kubelet as a service manager does. Its pods keep running.
func (k *standalone) stop(t *testing.T) {
	t.Helper()
	k.end(t, k.pid, "TERM")
	k.pid = ""
}

const kubeletServer = "127.0.0.1:10250"

// get sends a request to the kubelet's server.
func (k *standalone) get(path string, query url.Values) ([]byte, error) {
	u := url.URL{Scheme: "https", Host: kubeletServer, Path: path, RawQuery: query.Encode()}
	return get(&k.http, u.String())
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

// pods returns the kubelet's pods by name.
func (k *standalone) pods() (map[string]corev1.Pod, error) {
	body, err := k.get("/pods", nil)
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	pods := map[string]corev1.Pod{}
	for _, p := range list.Items {
		pods[p.Name] = p
	}
	return pods, nil
}

// exec runs a command in the container of a pod as kubectl does: over a stream to the
// runtime, which the kubelet forwards.
func (k *standalone) exec(ctx context.Context, pod string, command ...string) (string, error) {
	query := url.Values{"output": {"1"}, "error": {"1"}, "command": command}
	config, err := websocket.NewConfig("wss://"+kubeletServer+"/exec/"+namespace+"/"+pod+"/"+
		containerName+"?"+query.Encode(), "https://"+kubeletServer)
	if err != nil {
		return "", err
	}
	config.Protocol = []string{"v4.channel.k8s.io"}
	conn, err := k.dial(ctx, "tcp", kubeletServer)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	ws, err := websocket.NewClient(config, tls.Client(conn, &tls.Config{InsecureSkipVerify: true}))
	if err != nil {
		return "", fmt.Errorf("running %q in %s: %w", command, pod, err)
	}
	var channels [4]strings.Builder // stdin, stdout, stderr, the end
	for {
		var frame []byte
		switch err := websocket.Message.Receive(ws, &frame); {
		case err == io.EOF:
			if end := channels[3].String(); !strings.Contains(end, `"Success"`) {
				return "", fmt.Errorf("running %q in %s: %s\n%s", command, pod, end, &channels[2])
			}
			return channels[1].String(), nil
		case err != nil:
			return "", fmt.Errorf("running %q in %s: %w", command, pod, err)
		case len(frame) > 0 && int(frame[0]) < len(channels):
			channels[frame[0]].Write(frame[1:])
		}
	}
}

// logs returns the output of the container of a pod.
func (k *standalone) logs(pod string) (string, error) {
	body, err := k.get("/containerLogs/"+namespace+"/"+pod+"/"+containerName, nil)
	return string(body), err
}

// removeAll removes all sandboxes and containers. The error says which there were: a kubelet that
// finds the container of an earlier pod with the same UID counts a restart.
func (k kubelet) removeAll(ctx context.Context) error {
	sandboxes, err := k.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range sandboxes.Items {
		errs = append(errs, fmt.Errorf("sandbox %s of %s", s.Id, s.Metadata.Name), k.remove(ctx, s.Id))
	}
	containers, err := k.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return err
	}
	for _, c := range containers.Containers {
		_, err := k.runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: c.Id})
		errs = append(errs, fmt.Errorf("container %s of sandbox %s", c.Id, c.PodSandboxId), err)
	}
	return errors.Join(errs...)
}

// removePods removes all pods and the logs by which a kubelet recognizes that they ran
// before.
func (m *machine) removePods(t *testing.T) {
	t.Helper()
	k := m.directly(t)
	if err := poll(func() error { return k.removeAll(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(m.dir, "pods")); err != nil { // their logs
		t.Fatal(err)
	}
}
