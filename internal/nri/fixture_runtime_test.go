// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nri

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// runtime is a container runtime with one plugin, the relay.
type runtime struct {
	mux    multiplex.Mux
	plugin *bufio.Reader // of replies; the connection refuses reads that are shorter than a message
	stream uint32        // of the last call
}

// acceptPlugin returns the runtime that has replied to the registration of the plugin at conn, and has
// called nothing.
func acceptPlugin(conn net.Conn) (*runtime, error) {
	r := &runtime{mux: multiplex.Multiplex(conn)}
	service, err := r.mux.Open(multiplex.RuntimeServiceConn)
	if err != nil {
		return nil, err
	}
	header, err := readMessage(bufio.NewReaderSize(service, 64<<10))
	if err != nil {
		return nil, err
	}
	if err := writeMessage(service, binary.BigEndian.Uint32(header[4:]), 2, nil); err != nil { // a response without fields
		return nil, err
	}
	return r, nil
}

// synchronize configures the plugin, and announces sandboxes.
func (r *runtime) synchronize(sandboxes ...*api.PodSandbox) error {
	if err := r.call("Configure", &api.ConfigureRequest{RuntimeName: "test", NRIVersion: "v0.12.0"}); err != nil {
		return err
	}
	return r.call("Synchronize", &api.SynchronizeRequest{Pods: sandboxes})
}

// call calls a method of the plugin, and returns when it has replied.
func (r *runtime) call(method string, request proto.Message) error {
	payload, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	service, err := r.mux.Open(multiplex.PluginServiceConn)
	if err != nil {
		return err
	}
	if r.plugin == nil {
		r.plugin, r.stream = bufio.NewReaderSize(service, 64<<10), 1
	} else {
		r.stream += 2 // numbers of clients are odd
	}
	// The message Request of github.com/containerd/ttrpc: service, method, payload.
	message := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "nri.pkg.api.v1alpha1.Plugin")
	message = protowire.AppendString(protowire.AppendTag(message, 2, protowire.BytesType), method)
	message = protowire.AppendBytes(protowire.AppendTag(message, 3, protowire.BytesType), payload)
	if err := writeMessage(service, r.stream, 1, message); err != nil {
		return err
	}
	_, err = readMessage(r.plugin)
	return err
}

// readMessage reads a message and returns its header, which is that of github.com/containerd/ttrpc:
// length, stream, type and flags.
func readMessage(r *bufio.Reader) (header []byte, err error) {
	header = make([]byte, 10)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, err
	}
	_, err = r.Discard(int(binary.BigEndian.Uint32(header)))
	return header, err
}

// writeMessage writes a message of this type: 1 is a request, 2 a response.
func writeMessage(w io.Writer, stream uint32, kind byte, payload []byte) error {
	message := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))
	message = binary.BigEndian.AppendUint32(message, stream)
	_, err := w.Write(append(append(message, kind, 0), payload...))
	return err
}
