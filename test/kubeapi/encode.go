// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
)

// item is an object and its encodings, each of which is computed once for all watches:
// several clients read 100,000 endpoints.
type item struct {
	object Object // immutable
	once   [2]sync.Once
	wire   [2][]byte
}

// format is an encoding of objects.
type format int

const (
	jsonFormat format = iota
	protobufFormat
)

const protobufType = runtime.ContentTypeProtobuf

// formatOf returns the first supported format in the Accept header of r, or JSON.
func formatOf(r *http.Request) format {
	for part := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		kind, _, _ := strings.Cut(strings.TrimSpace(part), ";")
		switch kind {
		case protobufType:
			return protobufFormat
		case runtime.ContentTypeJSON:
			return jsonFormat
		}
	}
	return jsonFormat
}

func (f format) contentType(isWatch bool) string {
	switch {
	case f == jsonFormat:
		return runtime.ContentTypeJSON
	case isWatch:
		return protobufType + ";stream=watch"
	default:
		return protobufType
	}
}

// encode returns the encoding of o, whose kind must be set. It panics if o cannot be
// encoded, which is never the case for kinds of the API.
func (f format) encode(o runtime.Object) []byte {
	if f == jsonFormat {
		text, err := json.Marshal(o)
		if err != nil {
			panic(err)
		}
		return text
	}
	// To encode, the serializer reads the kind from the object and needs no scheme.
	text, err := runtime.Encode(protobuf.NewSerializer(nil, nil), o)
	if err != nil {
		panic(err)
	}
	return text
}

func (it *item) encoded(f format) []byte {
	it.once[f].Do(func() { it.wire[f] = f.encode(it.object) })
	return it.wire[f]
}

// frame returns an event of a watch: a JSON object, or a protobuf message after its
// length (k8s.io/apimachinery/pkg/runtime/serializer/protobuf, LengthDelimitedFramer).
func (f format) frame(kind watch.EventType, object []byte) []byte {
	if f == jsonFormat {
		text := make([]byte, 0, len(object)+40)
		text = append(text, `{"type":"`+string(kind)+`","object":`...)
		text = append(text, object...)
		return append(text, "}\n"...)
	}
	event := metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object}}
	text, err := event.Marshal()
	if err != nil {
		panic(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}
