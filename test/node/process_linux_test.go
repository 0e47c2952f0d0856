// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// program is the result of `make build`.
const program = "../../bin/dnsconfigurer"

// shimProcess is `dnsconfigurer shim` in its own process, with an API server, a host file
// and static manifests.
type shimProcess struct {
	kubelet
	pid  int
	addr string // of its metrics
}

// startProcess runs the shim in front of the runtime at socket until b ends. It returns
// when the shim has listed pods and reaches the runtime.
func startProcess(b *testing.B, socket string, pods []*corev1.Pod) *shimProcess {
	b.Helper()
	if _, err := os.Stat(program); err != nil {
		b.Fatalf("%v: run make build", err)
	}
	dir, api := shortDir(b), kubeapi.New()
	for _, pod := range pods {
		api.Apply(pod)
	}
	server := httptest.NewTLSServer(api)
	b.Cleanup(server.Close)
	path, addr := filepath.Join(dir, "run", "shim.sock"), process.Loopback(b, 1)[0]
	files := map[string]string{"resolv.conf": hostResolvConf, "kubeconfig": kubeconfig(server),
		"shim.yaml": shimHead + fmt.Sprintf("listen: %s\nruntimeEndpoint: unix://%s\nhttp: %s\n"+
			"kubeconfig: %s/kubeconfig\nmanifests: %[4]s/manifests\n"+
			"node: {clusterDNS: [10.96.0.10], clusterDomain: cluster.local, resolvConf: resolv.conf, nodeName: %s}\n",
			path, socket, addr, dir, nodeName)}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		files["manifests/"+name+".yaml"] = staticManifest(name)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		must.Succeed(b, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
	}
	p := &process.Process{Program: program, LogFile: filepath.Join(dir, "log"),
		Args: []string{"shim", "--config", filepath.Join(dir, "shim.yaml")}}
	must.Succeed(b, p.Start())
	b.Cleanup(func() {
		if err := p.Stop(); err != nil || b.Failed() {
			b.Errorf("the shim ended: %v\n%s", err, p.Log())
		}
	})
	shim := &shimProcess{kubelet{runtime: runtimeapi.NewRuntimeServiceClient(connect(b, path))}, p.PID(), addr}
	await(b, func() error {
		if api.Requests()["watch pods"] == 0 {
			return errors.New("the shim has not listed the pods")
		}
		_, err := shim.runtime.Version(b.Context(), &runtimeapi.VersionRequest{})
		return err
	})
	return shim
}

// typicalPods returns pods as large as those on nodes: a Deployment's pod after
// defaulting, admission and the kubelet's status updates. Their policy is autopath, so
// that the shim edits them.
func typicalPods(b *testing.B, n int) (pods []*corev1.Pod) {
	b.Helper()
	text := must.Get(os.ReadFile("testdata/pod.yaml"))(b)
	for i := range n {
		pod := new(corev1.Pod)
		values := strings.NewReplacer("NUMBER", fmt.Sprintf("%05d", i), "TEAM", fmt.Sprintf("team-%02d", i%12),
			"UID", fmt.Sprintf("0a1b2c3d-4e5f-6789-abcd-%012d", i))
		must.Succeed(b, yaml.UnmarshalStrict([]byte(values.Replace(string(text))), pod))
		pods = append(pods, pod)
	}
	return pods
}

func kubeconfig(server *httptest.Server) string {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return strings.Replace(kubeapi.Kubeconfig(server.URL), "cluster: {", "cluster: {certificate-authority-data: "+
		base64.StdEncoding.EncodeToString(authority)+", ", 1)
}

// edited returns the process's count of edited sandboxes.
func (p *shimProcess) edited(b *testing.B) int {
	b.Helper()
	text := process.Page(p.addr, "/metrics")
	_, after, _ := strings.Cut(text, `dnsconfigurer_sandbox_decisions_total{outcome="edited"} `)
	line, _, _ := strings.Cut(after, "\n")
	n, err := strconv.Atoi(line)
	if err != nil {
		b.Fatalf("no count of edited sandboxes in\n%s", text)
	}
	return n
}

// cpu returns the processor time of the threads of the process.
func (p *shimProcess) cpu(b *testing.B) time.Duration {
	b.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.pid))
	if err != nil || threads == nil {
		b.Fatalf("no schedstat of process %d: %v", p.pid, err)
	}
	var sum time.Duration
	for _, path := range threads {
		text := must.Get(os.ReadFile(path))(b)
		used, _, _ := strings.Cut(string(text), " ") // in ns (sched-stats in the kernel's documentation)
		n := must.Get(strconv.ParseInt(used, 10, 64))(b)
		sum += time.Duration(n)
	}
	return sum
}

// memory returns the memory of the process in kB, by the names of proc_pid_status(5) and,
// for Pss, of proc_pid_smaps(5).
func (p *shimProcess) memory(b *testing.B) map[string]float64 {
	b.Helper()
	m := map[string]float64{}
	for _, file := range []string{"status", "smaps_rollup"} {
		f := must.Get(os.Open(fmt.Sprintf("/proc/%d/%s", p.pid, file)))(b)
		for s := bufio.NewScanner(f); s.Scan(); {
			name, value, _ := strings.Cut(s.Text(), ":")
			if n, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64); err == nil {
				m[name] = n
			}
		}
		f.Close()
	}
	return m
}

// staticManifest returns a control plane's pod as kubeadm writes it.
func staticManifest(name string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %[1]s
  namespace: kube-system
  labels: {component: %[1]s, tier: control-plane}
spec:
  hostNetwork: true
  priorityClassName: system-node-critical
  containers:
  - name: %[1]s
    image: registry.k8s.io/%[1]s:v1.36.1
    command: [%[1]s, --kubeconfig=/etc/kubernetes/%[1]s.conf, --leader-elect=true]
    resources: {requests: {cpu: 100m}}
`, name)
}

// shortDir returns a directory for sockets, whose paths are limited to 107 bytes.
func shortDir(b *testing.B) string {
	b.Helper()
	dir := must.Get(os.MkdirTemp("", "dnsconfigurer-bench"))(b)
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
