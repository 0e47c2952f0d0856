// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (r *fakeRuntime) ListPodSandbox(_ context.Context, q *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	if s := q.GetFilter().GetState(); s == nil || s.State != runtimeapi.PodSandboxState_SANDBOX_READY {
		return nil, status.Error(codes.InvalidArgument, "want the sandboxes that are ready")
	}
	return &runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{
		{Id: "a", Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Uid: "u", Namespace: "shop", Attempt: 2}},
		{Id: "b"},
	}}, nil
}

func (r *fakeRuntime) PodSandboxStatus(_ context.Context,
	q *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	if q.PodSandboxId == "b" || !q.Verbose {
		return &runtimeapi.PodSandboxStatusResponse{Info: map[string]string{"info": "not JSON"}}, nil
	}
	return &runtimeapi.PodSandboxStatusResponse{
		Status: &runtimeapi.PodSandboxStatus{
			Id: "a", Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Uid: "u", Namespace: "shop"},
			Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "10.0.0.7", AdditionalIps: []*runtimeapi.PodIP{{Ip: "fd00::7"}, {Ip: "x"}}},
			Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{
				Options: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
			}},
			Annotations: map[string]string{"x": "y"},
		},
		Info: map[string]string{"other": "{}", "info": `{"pid": 7, "runtimeSpec": {"mounts": [
			{"destination": "/dev/shm", "source": "/shm"}, {"destination": "/etc/resolv.conf", "source": "/sandboxes/a/resolv.conf"}]}}`},
	}, nil
}

// TestClient reads the sandboxes of a runtime that uses the generated types.
func TestClient(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.sock")
	stop := serveRuntime(t, path, newFakeRuntime())
	c, err := NewClient("unix://" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list, err := c.ReadySandboxes(t.Context())
	if diff := cmp.Diff([]SandboxRef{{"a", "u"}, {"b", ""}}, list); err != nil || diff != "" {
		t.Errorf("%v, sandboxes (-want +got):\n%s", err, diff)
	}
	s, file, err := c.SandboxStatus(t.Context(), "a")
	want := Sandbox{
		Namespace: "shop", Name: "web", UID: "u", HostNetwork: true, Annotations: map[string]string{"x": "y"},
		IPs: []netip.Addr{netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7")},
	}
	if diff := cmp.Diff(want, s, cmpopts.EquateComparable(netip.Addr{})); err != nil || diff != "" || file != "/sandboxes/a/resolv.conf" {
		t.Errorf("%v, file %q, sandbox (-want +got):\n%s", err, file, diff)
	}
	if _, file, err := c.SandboxStatus(t.Context(), "b"); err != nil || file != "" {
		t.Errorf("%v, file %q of a runtime that does not report it", err, file)
	}
	stop()
	if _, err := c.ReadySandboxes(t.Context()); status.Code(err) != codes.Unavailable {
		t.Errorf("without a runtime: %v", err)
	}
}
