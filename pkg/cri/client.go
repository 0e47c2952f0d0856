// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	listPodSandbox   = "/runtime.v1.RuntimeService/ListPodSandbox"
	podSandboxStatus = "/runtime.v1.RuntimeService/PodSandboxStatus"
)

// Field numbers of runtime.v1 that only a [Client] uses.
const (
	listFilter  = 1 // ListPodSandboxRequest.filter
	filterState = 2 // PodSandboxFilter.state
	listItems   = 1 // ListPodSandboxResponse.items

	sandboxID = 1 // PodSandbox.id

	statusRequestID      = 1 // PodSandboxStatusRequest
	statusRequestVerbose = 2
	statusReplyStatus    = 1 // PodSandboxStatusResponse
	statusReplyInfo      = 2

	statusMetadata    = 2 // PodSandboxStatus
	statusNetwork     = 5
	statusLinux       = 6
	statusAnnotations = 8

	networkIP         = 1 // PodSandboxNetworkStatus
	networkAdditional = 2
	podIP             = 1 // PodIP

	linuxNamespaces  = 1 // LinuxPodSandboxStatus.namespaces
	namespaceOptions = 2 // Namespace.options
)

// Client calls a container runtime. It is safe for concurrent use.
type Client struct{ conn *grpc.ClientConn }

// NewClient returns a client of the runtime at endpoint, such as
// "unix:///run/containerd/containerd.sock". It connects at the first call.
func NewClient(endpoint string) (*Client, error) {
	conn, err := dial(endpoint)
	if err != nil {
		return nil, err
	}
	return &Client{conn}, nil
}

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

// ReadySandboxes returns the IDs of the sandboxes that run.
func (c *Client) ReadySandboxes(ctx context.Context) (ids []string, err error) {
	// The zero state is SANDBOX_READY. An empty message selects it.
	filter := appendBytes(nil, listFilter, appendBytes(nil, filterState, nil))
	reply, err := c.call(ctx, listPodSandbox, filter)
	if err != nil {
		return nil, fmt.Errorf("container runtime at %w", err)
	}
	err = reader{listItems: messageField(reader{sandboxID: listField(&ids)})}.read(reply)
	return ids, err
}

// SandboxStatus returns a sandbox, without its DNS and hostname, and the path of the file that the
// runtime mounts at /etc/resolv.conf into its containers. The path is "" if the runtime does not
// report it.
func (c *Client) SandboxStatus(ctx context.Context, id string) (s Sandbox, resolvConf string, err error) {
	request := appendBytes(nil, statusRequestID, []byte(id))
	request = protowire.AppendVarint(protowire.AppendTag(request, statusRequestVerbose, protowire.VarintType), 1)
	reply, err := c.call(ctx, podSandboxStatus, request)
	if err != nil {
		return s, "", fmt.Errorf("container runtime at %w", err)
	}
	s.Annotations = map[string]string{}
	address := bytesField(func(text []byte) error { // one that is not valid is left out
		if ip, err := netip.ParseAddr(string(text)); err == nil {
			s.IPs = append(s.IPs, ip)
		}
		return nil
	})
	err = reader{
		statusReplyStatus: messageField(reader{
			statusMetadata:    s.metadataField(),
			statusAnnotations: s.annotationField(),
			statusNetwork:     messageField(reader{networkIP: address, networkAdditional: messageField(reader{podIP: address})}),
			statusLinux:       messageField(reader{linuxNamespaces: messageField(reader{namespaceOptions: s.namespacesField()})}),
		}),
		statusReplyInfo: bytesField(func(entry []byte) error {
			key, value, err := readEntry(entry)
			if key == "info" {
				resolvConf = mountedResolvConf(value)
			}
			return err
		}),
	}.read(reply)
	return s, resolvConf, err
}

// call sends a request of a unary method, and returns the reply. An error begins with the path of the socket.
func (c *Client) call(ctx context.Context, method string, request []byte, options ...grpc.CallOption) ([]byte, error) {
	var reply frame
	if err := c.conn.Invoke(ctx, method, &frame{mem.BufferSlice{mem.SliceBuffer(request)}}, &reply, options...); err != nil {
		path := strings.TrimPrefix(c.conn.Target(), "unix://")
		return nil, fmt.Errorf("%s: %s", path, describeCall(path, status.Convert(err)))
	}
	defer reply.data.Free()
	return reply.data.Materialize(), nil
}

// describeCall returns why the socket at path cannot be reached, or what its server replied, without the
// words of gRPC.
func describeCall(path string, s *status.Status) string {
	text := strings.TrimPrefix(s.Message(), "latest balancer error: ")
	if quoted, ok := strings.CutPrefix(text, "connection error: desc = "); ok { // transport.ConnectionError.Error
		if plain, err := strconv.Unquote(quoted); err == nil {
			text = plain
		}
	}
	text = strings.TrimPrefix(text, "transport: Error while dialing: ")
	if dialed, ok := strings.CutPrefix(text, "dial unix "); ok {
		if at, reason, ok := strings.Cut(dialed, ": connect: "); ok {
			return describeDial(path, at, reason)
		}
	}
	if s.Code() == codes.DeadlineExceeded && strings.HasPrefix(text, "context deadline exceeded") {
		return "no reply in time"
	}
	return cmp.Or(text, s.Code().String())
}

// describeDial returns why there is no connection to the socket at. A shim replies with the error of the
// runtime's socket, which is not the one of the call.
func describeDial(path, at, reason string) string {
	next := "start it"
	switch reason {
	case syscall.ENOENT.Error():
		reason = "no such socket"
	case syscall.ECONNREFUSED.Error():
		reason = "no process serves it"
	case syscall.EACCES.Error():
		next = "run this command as root"
	default:
		next = "" // such as EAGAIN: a process serves it, and does not accept connections
	}
	switch {
	case at != path:
		return fmt.Sprintf("container runtime at %s: %s", at, reason)
	case next == "":
		return reason
	}
	return fmt.Sprintf("%s: %s", reason, next)
}

// mountedResolvConf returns the source of the mount in the information of a sandbox, which
// containerd and CRI-O give as JSON.
func mountedResolvConf(info string) string {
	var v struct {
		RuntimeSpec struct {
			Mounts []struct{ Destination, Source string }
		}
	}
	if json.Unmarshal([]byte(info), &v) != nil {
		return ""
	}
	for _, m := range v.RuntimeSpec.Mounts {
		if m.Destination == "/etc/resolv.conf" {
			return m.Source
		}
	}
	return ""
}

func appendBytes(b []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
}

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
	c, err := NewClient(endpoint)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.call(ctx, "/runtime.v1.RuntimeService/Version", nil, grpc.WaitForReady(true))
}
