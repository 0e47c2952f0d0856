// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// Sizes of the benchmarks.
const (
	maxPods    = 110      // the kubelet's default
	largeReply = 8 << 20  // bytes
	maxMessage = 16 << 20 // the kubelet's limit, in bytes (internal/cri in Kubernetes)
)

// BenchmarkInstant measures calls to a runtime that replies at once.
func BenchmarkInstant(b *testing.B) {
	pods := typicalPods(b, maxPods)
	socket := serve(b, newInstant(b, pods))
	shim := startProcess(b, socket, pods)
	direct := kubelet{runtime: runtimeapi.NewRuntimeServiceClient(connect(b, socket))}
	compare(b, direct, shim, []call{
		{"Version", func(b *testing.B, k kubelet) error {
			_, err := k.runtime.Version(b.Context(), &runtimeapi.VersionRequest{})
			return err
		}},
		{"ListPodSandbox-110", list},
		{"RunPodSandbox", starts(b, pods)},
		{"ListContainers-8MiB", listLarge},
	})
}

// BenchmarkMemory measures the memory of a shim on a full node: after the start, after
// many restarts of every pod, after large replies, and when idle.
func BenchmarkMemory(b *testing.B) {
	pods := typicalPods(b, maxPods)
	text := must.Get(json.Marshal(pods))(b)
	if each := len(text) / len(pods); each < 6000 || each > 10000 {
		b.Fatalf("a pod has %d bytes in JSON, those of clusters have 6000 to 10000", each)
	}
	shim := startProcess(b, serve(b, newInstant(b, pods)), pods)
	rest := func(*testing.B, kubelet) error { time.Sleep(100 * time.Millisecond); return nil }
	for _, c := range []call{
		{"start", rest},
		{"sandboxes", starts(b, pods)},
		{"lists", list},
		{"large-replies", listLarge},
		{"rest", rest},
	} {
		b.Run("after="+c.name, func(b *testing.B) {
			for b.Loop() {
				must.Succeed(b, c.do(b, shim.kubelet))
			}
			m := shim.memory(b)
			for unit, name := range map[string]string{"rss-MB": "VmRSS", "anon-MB": "RssAnon",
				"file-MB": "RssFile", "pss-MB": "Pss", "peak-MB": "VmHWM"} {
				b.ReportMetric(m[name]*1024/1e6, unit)
			}
			b.ReportMetric(0, "ns/op") // meaningless here
		})
	}
}

// call is one kind of request of a kubelet.
type call struct {
	name string
	do   func(*testing.B, kubelet) error
}

// compare measures the calls directly and through the shim. benchstat -col /path shows
// the difference; shim-us/op is the processor time of the shim per call.
func compare(b *testing.B, direct kubelet, shim *shimProcess, calls []call) {
	for _, c := range calls {
		b.Run("call="+c.name+"/path=direct", func(b *testing.B) {
			for b.Loop() {
				must.Succeed(b, c.do(b, direct))
			}
		})
		b.Run("call="+c.name+"/path=shim", func(b *testing.B) {
			edited, used, started := shim.edited(b), shim.cpu(b), 0
			for b.Loop() {
				must.Succeed(b, c.do(b, shim.kubelet))
				started++
			}
			b.ReportMetric(float64((shim.cpu(b)-used).Nanoseconds())/1e3/float64(started), "shim-us/op")
			if edited = shim.edited(b) - edited; c.name == "RunPodSandbox" && edited != started {
				b.Errorf("of %d sandboxes %d were edited", started, edited)
			}
		})
	}
}

func list(b *testing.B, k kubelet) error {
	_, err := k.runtime.ListPodSandbox(b.Context(), &runtimeapi.ListPodSandboxRequest{})
	return err
}

func listLarge(b *testing.B, k kubelet) error {
	_, err := k.runtime.ListContainers(b.Context(), &runtimeapi.ListContainersRequest{}, grpc.MaxCallRecvMsgSize(maxMessage))
	return err
}

// starts starts the sandboxes of pods, one at a time.
func starts(b *testing.B, pods []*corev1.Pod) func(*testing.B, kubelet) error {
	var requests []*runtimeapi.PodSandboxConfig
	for _, pod := range pods {
		requests = append(requests, kubelet{}.sandboxOf(engine(b, facts()), resolvconf.Parse(hostResolvConf), pod))
	}
	next := 0
	return func(b *testing.B, k kubelet) error {
		next = (next + 1) % len(requests)
		_, err := k.start(b.Context(), requests[next])
		return err
	}
}

// instant is a runtime that replies at once and does nothing.
type instant struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	sandboxes []*runtimeapi.PodSandbox
}

// newInstant returns a runtime with the sandboxes of pods.
func newInstant(b *testing.B, pods []*corev1.Pod) *instant {
	b.Helper()
	r := new(instant)
	for _, pod := range pods {
		c := kubelet{}.sandboxOf(engine(b, facts()), resolvconf.Parse(hostResolvConf), pod)
		r.sandboxes = append(r.sandboxes, &runtimeapi.PodSandbox{
			Id: strings.Repeat("f0", 32), Metadata: c.Metadata, Labels: c.Labels,
			Annotations: c.Annotations, CreatedAt: pod.CreationTimestamp.UnixNano(),
		})
	}
	return r
}

func (r *instant) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	return &runtimeapi.ListPodSandboxResponse{Items: r.sandboxes}, nil
}

func (*instant) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "instant", RuntimeVersion: "1", RuntimeApiVersion: "v1"}, nil
}

func (*instant) RunPodSandbox(context.Context, *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: strings.Repeat("f0", 32)}, nil
}

func (*instant) ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{{Id: strings.Repeat("x", largeReply)}}}, nil
}

// serve serves a runtime until b ends, and returns its socket.
func serve(b *testing.B, r runtimeapi.RuntimeServiceServer) string {
	b.Helper()
	path := filepath.Join(shortDir(b), "runtime.sock")
	l := must.Get(net.Listen("unix", path))(b)
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, r)
	go func() { _ = server.Serve(l) }()
	b.Cleanup(server.Stop)
	return path
}
