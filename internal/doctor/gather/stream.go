// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport/websocket"
)

// binaryMessage is the type of messages with any bytes (RFC 6455 section 11.8).
const binaryMessage = 2

// stream is a WebSocket connection to a container or a pod, through the API server. The first byte of
// a message is the number of a channel.
type stream struct {
	net.Conn // for its deadlines; Close closes the stream
	next     func() (io.Reader, error)
	send     func(message []byte) error
}

// dialStream opens a stream. The time of ctx is for opening alone.
func dialStream(ctx context.Context, cfg *rest.Config, at *url.URL, protocol string) (stream, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return stream{}, err
	}
	transport, holder, err := websocket.RoundTripperFor(cfg)
	if err != nil {
		return stream{}, err
	}
	conn, err := websocket.Negotiate(transport, holder, request, protocol)
	if err != nil {
		return stream{}, err
	}
	return stream{
		Conn: conn.NetConn(),
		next: func() (io.Reader, error) {
			_, message, err := conn.NextReader()
			return message, err
		},
		send: func(message []byte) error { return conn.WriteMessage(binaryMessage, message) },
	}, nil
}
