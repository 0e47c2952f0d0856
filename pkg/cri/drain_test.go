// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// StreamContainers sends a list in two messages. Between them it waits for a value of exitCodes.
func (r *fakeRuntime) StreamContainers(_ *runtimeapi.StreamContainersRequest,
	stream grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse]) error {
	if err := stream.Send(&runtimeapi.StreamContainersResponse{}); err != nil {
		return err
	}
	r.started <- struct{}{}
	select {
	case <-r.exitCodes:
		return stream.Send(&runtimeapi.StreamContainersResponse{})
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

// TestDrain_FiniteStream: a list that is streamed completes during the drain, and a second shim
// is refused until the first has ended.
func TestDrain_FiniteStream(t *testing.T) {
	n := newNode(t, passHook())
	n.shim.DrainTimeout = time.Minute
	path := n.shim.Listener.Addr().String()
	stream, err := runtimeapi.NewRuntimeServiceClient(n.shimmed).StreamContainers(t.Context(), &runtimeapi.StreamContainersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	<-n.runtime.started
	ended := make(chan error, 1)
	go func() { ended <- n.stopShim() }()
	poll.Until(t, "the drain, which closes the socket", func() bool {
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	if l, err := Listen(path); err == nil || !strings.Contains(err.Error(), "is locked by another process") {
		t.Errorf("a second shim during the drain: %v, %v", l, err)
	}
	n.runtime.exitCodes <- 0
	if _, err := stream.Recv(); err != nil {
		t.Errorf("the second message: %v", err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	l, err := Listen(path)
	if err != nil {
		t.Fatalf("a second shim after the first: %v", err)
	}
	l.Close()
}
