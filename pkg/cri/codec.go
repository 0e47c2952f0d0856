// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"

	"google.golang.org/grpc/mem"
)

// frame is one message, not decoded. Whoever sends it gives it away.
type frame struct{ data mem.BufferSlice }

// rawCodec hands messages through. It bears the name of the codec that it stands
// in for: that name is part of the content type which the runtime sees.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

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
