// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Timeouts of a connection. idleTimeout is longer than that of the API server (90 s in
// client-go), so that the server never closes a connection on which a request is being
// written.
const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 3 * time.Second // the timeoutSeconds of `webhook manifests`: a slow body keeps others waiting
	writeTimeout  = 20 * time.Second
	idleTimeout   = 3 * time.Minute
)

// maxStreams is the number of requests in progress on a connection. An API server opens one
// connection per webhook, and another one if all its requests are in progress; the default of Go
// is 250.
const maxStreams = 16

// streamBuffer and connectionBuffer are the bytes of bodies that a client may send before they
// are read, of one request and of all requests of a connection. Large reviews wait unread for
// memory: with the defaults of Go, 1 MiB each, one of them uses up the connection, and the small
// reviews behind it wait, too. Four pods of 3 MB at once kept a fifth of the ordinary ones
// waiting for the timeout of the API server. The connection has room for all its requests.
// A larger streamBuffer has fewer round trips for a large review, which matter on a busy machine.
const (
	streamBuffer     = 240 << 10
	connectionBuffer = (maxStreams + 1) * streamBuffer // less than 4 MiB, the limit of net/http
)

// Server serves a Handler over HTTPS. It shuts down without losing a request of a client that uses
// its connection in the lameduck time: it reports that it is not ready, serves for that time, closes
// connections with the response to their next request, and then completes the requests in progress.
//
// http.Server.Shutdown then closes connections without a request. A request that arrives on one of
// them at that moment is lost: the lameduck time must be long enough for clients to learn that the
// replica ends, and for the next request on most connections.
type Server struct {
	Handler http.Handler

	// Certificate returns the certificate to serve, or nil if there is none, and the
	// reason if the server is not ready. It is called at every handshake and must be safe
	// for concurrent use.
	Certificate func() (*tls.Certificate, error)

	Lameduck time.Duration // for which new connections are still accepted; 0: none
	Drain    time.Duration // for requests in progress after that; 0: none
	Logger   *slog.Logger  // required

	stopping atomic.Bool
}

// errStopping is the error of Ready during the shutdown.
var errStopping = errors.New("the server is shutting down")

// Ready returns an error if the server is not ready for requests.
func (s *Server) Ready() error {
	if s.stopping.Load() {
		return errStopping
	}
	_, err := s.Certificate()
	return err
}

// certificate is for a tls.Config. An expired certificate is better than none: the API
// server then logs the reason.
func (s *Server) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c, err := s.Certificate()
	if c != nil {
		return c, nil
	}
	return nil, err
}

// handle closes the connection with the response once the server is shutting down: a GOAWAY
// in HTTP/2 (RFC 9113 section 6.8). Shutdown closes idle connections without one, which is
// an error for a client that is writing a request.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	if s.stopping.Load() {
		w.Header().Set("Connection", "close")
	}
	s.Handler.ServeHTTP(w, r)
}

// Run serves the connections of l until ctx is done, and closes l.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:   http.HandlerFunc(s.handle),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certificate},
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams,
			MaxReceiveBufferPerStream: streamBuffer, MaxReceiveBufferPerConnection: connectionBuffer},
		ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug), // failed handshakes, such as those of port scanners
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(l, "", "") }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving admission reviews: %w", err)
	case <-ctx.Done():
	}
	s.stopping.Store(true)
	s.Logger.Info("shutting down", "lameduck", s.Lameduck)
	select {
	case err := <-ended:
		return fmt.Errorf("serving admission reviews: %w", err)
	case <-time.After(s.Lameduck):
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Drain)
	defer cancel()
	err := server.Shutdown(draining)
	<-ended // http.ErrServerClosed
	if err != nil {
		_ = server.Close()
		return fmt.Errorf("requests in progress after %v: %w", s.Drain, err)
	}
	return nil
}
