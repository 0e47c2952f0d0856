// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"testing"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// BenchmarkCall calls a runtime that replies at once, directly and through the shim, all in
// one process for the profiler. BenchmarkInstant in test/node runs the shim as on a node.
func BenchmarkCall(b *testing.B) {
	h, _ := newHook(b, autopath)
	h.Report = func(Report) {}
	n := newNode(b, h)
	n.runtime.replySize = 8 << 20
	go func() {
		for range n.runtime.sandboxes {
		}
	}()
	sent := sandboxRequest(autopath, kubeletDNS)
	calls := []struct {
		name string
		call func(c runtimeapi.RuntimeServiceClient) error
	}{
		{"Version", func(c runtimeapi.RuntimeServiceClient) error {
			_, err := c.Version(b.Context(), &runtimeapi.VersionRequest{})
			return err
		}},
		{"RunPodSandbox", func(c runtimeapi.RuntimeServiceClient) error {
			_, err := c.RunPodSandbox(b.Context(), sent)
			return err
		}},
		{"ListContainers-8MiB", func(c runtimeapi.RuntimeServiceClient) error {
			_, err := c.ListContainers(b.Context(), &runtimeapi.ListContainersRequest{})
			return err
		}},
	}
	paths := []struct {
		name string
		conn *grpc.ClientConn
	}{{"direct", n.direct}, {"shim", n.shimmed}}
	for _, call := range calls {
		for _, p := range paths {
			b.Run("call="+call.name+"/path="+p.name, func(b *testing.B) {
				c := runtimeapi.NewRuntimeServiceClient(p.conn)
				b.ReportAllocs()
				for b.Loop() {
					if err := call.call(c); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
