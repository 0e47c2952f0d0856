// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestMethods_Generated compares the table with the package generated from CRI.
func TestMethods_Generated(t *testing.T) {
	want := map[string]shape{}
	for _, service := range []grpc.ServiceDesc{runtimeapi.RuntimeService_ServiceDesc, runtimeapi.ImageService_ServiceDesc} {
		for _, m := range service.Methods {
			want["/"+service.ServiceName+"/"+m.MethodName] = unary
		}
		for _, s := range service.Streams {
			want["/"+service.ServiceName+"/"+s.StreamName] = streaming
		}
	}
	if diff := cmp.Diff(want, methods); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestForwardUnary_WithoutRequest begins a unary call and sends no message.
func TestForwardUnary_WithoutRequest(t *testing.T) {
	n := newNode(t, passHook())
	for name, c := range map[string]*grpc.ClientConn{"directly": n.direct, "through the shim": n.shimmed} {
		s, err := c.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, "/runtime.v1.RuntimeService/Version")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if err := s.RecvMsg(&runtimeapi.VersionResponse{}); status.Code(err) != codes.Internal {
			t.Errorf("%s: %v", name, err)
		}
	}
}
