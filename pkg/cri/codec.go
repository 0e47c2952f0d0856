// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"

	"google.golang.org/grpc/mem"
)

// frame is one encoded message. It can be sent once: sending clears its data, which gRPC then owns.
type frame struct{ data mem.BufferSlice }

// rawCodec passes messages through without decoding them. Its name is empty because
// gRPC appends the name of a codec to the content type, and the runtime must receive the
// content type of the kubelet, which the forwarder sets.
type rawCodec struct{}

func (rawCodec) Name() string { return "" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("raw codec: cannot send a %T", v)
	}
	data := f.data
	f.data = nil
	return data, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("raw codec: cannot receive into a %T", v)
	}
	data.Ref()
	f.data = data
	return nil
}
