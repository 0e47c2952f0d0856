// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// fullNode returns as many pods as a kubelet starts by default: a third of them each on the pod
// network, on the host's, and in user namespaces.
func fullNode() (pods []*corev1.Pod) {
	no := false
	for i := range maxPods {
		spec := corev1.PodSpec{DNSPolicy: corev1.DNSDefault}
		switch i % 3 {
		case 1:
			spec.HostNetwork = true
		case 2:
			spec.HostUsers = &no
		}
		pods = append(pods, nriPod(fmt.Sprintf("full-%d", i), spec, ""))
	}
	return pods
}

// BenchmarkRefresh measures the time from a change of the host's file until the first and the last
// container of a full node see it.
func BenchmarkRefresh(b *testing.B) {
	m := newMachine(b, nodetools.BuildContainerd(b)+":"+nodetools.BuildRunc(b))
	n := newNRI(b, m, process.Build(b, b.TempDir()), m.kubelet(b, m.endpoint(), "NRI"))
	m.write(b, "agent.yaml", strings.ReplaceAll(agentConfiguration, "DIR", m.dir))
	pods := fullNode()
	n.startAgent(b)
	n.startRelay(b)
	var files []string
	for _, pod := range pods {
		files = append(files, n.fileOf(b, n.startPod(b, pod)))
	}
	for _, pod := range pods {
		n.awaitPod(b, pod.Name, decided)
	}
	var first, last time.Duration
	for i := 0; b.Loop(); i++ {
		f, l := n.follow(b, files, []string{secondHost, hostResolvConf}[i%2])
		first, last = first+f, last+l
	}
	b.ReportMetric(first.Seconds()*1e3/float64(b.N), "first-ms")
	b.ReportMetric(last.Seconds()*1e3/float64(b.N), "last-ms")
	b.ReportMetric(0, "ns/op") // includes the polls
}

// fileOf returns the path by which a process outside reads the file as the container sees it.
func (n *nri) fileOf(b *testing.B, container string) string {
	b.Helper()
	r, err := n.runtime.ContainerStatus(b.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: container, Verbose: true})
	if err != nil {
		b.Fatal(err)
	}
	var info struct{ Pid int }
	if err := json.Unmarshal([]byte(r.Info["info"]), &info); err != nil || info.Pid == 0 {
		b.Fatalf("%v, no process in %s", err, r.Info["info"])
	}
	return fmt.Sprintf("/proc/%d/root/proc/%d/root/etc/resolv.conf", n.init.Process.Pid, info.Pid)
}

// follow changes the host's file and returns when all files have its text.
func (n *nri) follow(b *testing.B, files []string, text string) (first, last time.Duration) {
	b.Helper()
	began := time.Now()
	n.write(b, "etc/resolv.conf", text)
	await(b, func() error {
		followed := 0
		for _, path := range files {
			content, err := os.ReadFile(path)
			if err != nil {
				b.Fatal(err)
			}
			if configOf(string(content)).Equal(configOf(text)) {
				followed++
			}
		}
		last = time.Since(began)
		if followed > 0 && first == 0 {
			first = last
		}
		if followed < len(files) {
			return fmt.Errorf("%d of %d files follow", followed, len(files))
		}
		return nil
	})
	return first, last
}
