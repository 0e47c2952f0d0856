// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"

	"google.golang.org/grpc/mem"
)

// frame is one message, not decoded. Whoever sends it gives it away.
type frame struct{ data mem.BufferSlice }

// rawCodec hands messages through. The name of a codec becomes part of the content
// type. This one has none: the runtime is to see the kubelet's content type, which
// forward passes on.
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
