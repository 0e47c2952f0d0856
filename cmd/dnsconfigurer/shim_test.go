// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/testing/protocmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandboxes is a runtime that remembers what it was asked for.
type sandboxes struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	asked chan *runtimeapi.DNSConfig
}

func (s *sandboxes) RunPodSandbox(_ context.Context, q *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	s.asked <- q.Config.DnsConfig
	return &runtimeapi.RunPodSandboxResponse{}, nil
}

// TestShim runs the command on a node without an API server: a static pod asks for
// autopath by annotation, its kubelet has computed ClusterFirst.
func TestShim(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the shim runs on Linux only")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"resolv.conf": "nameserver 192.0.2.53\nsearch corp.example\n",
		"kubelet.yaml": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
			"clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\nresolvConf: resolv.conf\n",
		"manifests/web.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop, annotations: {dnsconfigurer.dev/policy: ClusterFirstWithAutopath}}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, []byte(text))
	}
	containerd := &sandboxes{asked: make(chan *runtimeapi.DNSConfig, 1)}
	l, err := net.Listen("unix", filepath.Join(dir, "runtime.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, containerd)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()

	addr := freeAddr(t)
	ctx, stop := context.WithCancel(t.Context())
	var log lockedBuffer
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"shim", "--listen", "unix://" + dir + "/run/shim.sock", "--runtime-endpoint", "unix://" + dir + "/runtime.sock",
			"--kubelet-config", dir + "/kubelet.yaml", "--manifests", dir + "/manifests", "--node-name", "Worker", "--http", addr}, nil, io.Discard, &log)
	}()
	conn, err := grpc.NewClient("unix://"+dir+"/run/shim.sock", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	callCtx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	asked := &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{
		Metadata:    &runtimeapi.PodSandboxMetadata{Name: "web-worker", Namespace: "shop", Uid: "0123456789abcdef"},
		Annotations: map[string]string{"kubernetes.io/config.source": "file"},
		DnsConfig: &runtimeapi.DNSConfig{
			Servers: []string{"10.96.0.10"}, Options: []string{"ndots:5"},
			Searches: []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example"},
		},
	}}
	if _, err := runtimeapi.NewRuntimeServiceClient(conn).RunPodSandbox(callCtx, asked, grpc.WaitForReady(true)); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	want := &runtimeapi.DNSConfig{Servers: []string{"10.96.0.10"}, Searches: []string{"search.shop.cluster.local.ap.k8s.io"}, Options: []string{"ndots:5"}}
	if diff := cmp.Diff(want, <-containerd.asked, protocmp.Transform()); diff != "" {
		t.Errorf("the runtime is asked for (-want +got):\n%s", diff)
	}
	if body := get(t, addr, "/metrics"); !strings.Contains(body, `dnsconfigurer_sandbox_decisions_total{outcome="edited"} 1`) {
		t.Errorf("metrics:\n%s", body)
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if body := get(t, addr, path); body != "ok\n" {
			t.Errorf("%s: %s", path, body)
		}
	}
	stop()
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d\n%s", code, log.String())
	}
	for _, line := range []string{`msg="sandbox edited" pod=shop/web-worker podUID=0123456789abcdef outcome=edited`, "msg=serving"} {
		if strings.Count(log.String(), line) != 1 {
			t.Errorf("the log has not one line %q:\n%s", line, log.String())
		}
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func get(t *testing.T, addr, path string) string {
	t.Helper()
	r, err := http.Get(fmt.Sprintf("http://%s%s", addr, path))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
