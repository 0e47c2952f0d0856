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

// Times of a connection. An API server keeps one open as long as requests come, and for
// idleTimeout between them: longer than it would itself (90 seconds in client-go), so
// that it is never us who close one that a request is just being written to.
const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 10 * time.Second
	writeTimeout  = 20 * time.Second
	idleTimeout   = 3 * time.Minute
)

// Server serves a Handler over HTTPS until it is told to end, and then so that no
// request is lost: it says that it is not ready, goes on until nobody sends new
// connections, asks who uses an old one to open another, and lets what is open come to
// its end.
type Server struct {
	Handler http.Handler

	// Certificate returns what is served, nil while there is nothing, and why no
	// requests should come. It is asked at every handshake, by many goroutines.
	Certificate func() (*tls.Certificate, error)

	Lameduck time.Duration // for which new connections are still taken; 0: none
	Drain    time.Duration // for which requests may go on then; 0: not at all
	Logger   *slog.Logger  // required

	ending atomic.Bool
}

// errEnding is why a server is not ready that is ending.
var errEnding = errors.New("the server is ending")

// Ready says why no requests should come; nil: they may.
func (s *Server) Ready() error {
	if s.ending.Load() {
		return errEnding
	}
	_, err := s.Certificate()
	return err
}

// served is for a tls.Config. A certificate that is not good is better than none: an API
// server says what is wrong with it.
func (s *Server) served(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c, err := s.Certificate()
	if c != nil {
		return c, nil
	}
	return nil, err
}

// handle has a connection end with the reply, once the server is ending: a GOAWAY in
// HTTP/2 (RFC 9113 section 6.8). Shutdown closes connections that are idle at that instant
// without one, and to who is just writing a request this is an error.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	if s.ending.Load() {
		w.Header().Set("Connection", "close")
	}
	s.Handler.ServeHTTP(w, r)
}

// Run serves connections of l, which it closes, until ctx ends.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           http.HandlerFunc(s.handle),
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.served},
		ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug), // handshakes of whoever scans ports
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(l, "", "") }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving admission reviews: %w", err)
	case <-ctx.Done():
	}
	s.ending.Store(true)
	s.Logger.Info("ending", "lameduck", s.Lameduck)
	select {
	case err := <-ended:
		return fmt.Errorf("serving admission reviews: %w", err)
	case <-time.After(s.Lameduck):
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Drain)
	defer cancel()
	err := server.Shutdown(draining)
	<-ended // it is http.ErrServerClosed
	if err != nil {
		_ = server.Close()
		return fmt.Errorf("requests were still open after %v: %w", s.Drain, err)
	}
	return nil
}
