// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
)

// Compare calls Version of the runtime through the shim and directly, and returns an error unless
// both answer the same. The call does not reach the hook.
func Compare(ctx context.Context, shim, runtime string) error {
	through, err := runtimeVersion(ctx, shim)
	if err != nil {
		return fmt.Errorf("shim at %w", err)
	}
	direct, err := runtimeVersion(ctx, runtime)
	if err != nil {
		return fmt.Errorf("container runtime at %w", err)
	}
	if !bytes.Equal(through, direct) {
		return fmt.Errorf("%s and %s do not lead to the same container runtime: check runtimeEndpoint", shim, runtime)
	}
	return nil
}

// runtimeVersion returns the encoded reply of the call Version.
func runtimeVersion(ctx context.Context, endpoint string) ([]byte, error) {
	conn, err := dial(endpoint)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var reply frame
	if err := conn.Invoke(ctx, "/runtime.v1.RuntimeService/Version", &frame{}, &reply, grpc.WaitForReady(true)); err != nil {
		path := strings.TrimPrefix(endpoint, "unix://")
		return nil, fmt.Errorf("%s: %w", path, newCallError(path, "start it", err))
	}
	defer reply.data.Free()
	return reply.data.Materialize(), nil
}
