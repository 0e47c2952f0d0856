// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport/websocket"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
)

const (
	// maxReceived is the size of all messages of a stream, beyond which nothing is read: twice the largest reply of
	// a DNS server, and 32 times the longest resolv.conf of a kubelet.
	maxReceived = 128 << 10

	// maxMessages is the number of messages of a stream, beyond which nothing is read. A message may be empty.
	maxMessages = 1000

	// binaryMessage is the type of messages with any bytes (RFC 6455 section 11.8).
	binaryMessage = 2
)

// stream is a WebSocket connection to a container or a pod, through the API server. The first byte of a message is
// the number of a channel. What is received is bounded: a node controls it.
type stream struct {
	net.Conn // for its deadlines; Close closes the stream
	next     func() (io.Reader, error)
	send     func(message []byte) error

	messages int
	size     int // of all messages
}

// dialStream opens a stream to a subresource of a pod. The time of ctx is for opening alone.
func dialStream(ctx context.Context, cfg *rest.Config, namespace, pod, subresource, protocol string, query url.Values) (*stream, error) {
	api, err := cluster.NewClient(cfg, corev1.SchemeGroupVersion, &corev1.Pod{})
	if err != nil {
		return nil, err
	}
	at := api.Get().Namespace(namespace).Resource("pods").Name(pod).SubResource(subresource).URL()
	at.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	transport, holder, err := websocket.RoundTripperFor(cfg)
	if err != nil {
		return nil, err
	}
	conn, err := websocket.Negotiate(transport, holder, request, protocol)
	if err != nil {
		return nil, err
	}
	return &stream{
		Conn: conn.NetConn(),
		next: func() (io.Reader, error) {
			_, message, err := conn.NextReader()
			return message, err
		},
		send: func(message []byte) error { return conn.WriteMessage(binaryMessage, message) },
	}, nil
}

// receive returns the next message.
func (s *stream) receive() (channel byte, data []byte, err error) {
	if s.messages++; s.messages > maxMessages {
		return 0, nil, fmt.Errorf("more than %d messages", maxMessages)
	}
	message, err := s.next()
	if err != nil {
		return 0, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(message, int64(maxReceived-s.size+1)))
	switch s.size += len(text); {
	case err != nil:
		return 0, nil, err
	case s.size > maxReceived:
		return 0, nil, fmt.Errorf("more than %d bytes", maxReceived)
	case len(text) == 0:
		return 0, nil, errors.New("a message without a channel")
	}
	return text[0], text[1:], nil
}
