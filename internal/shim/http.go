// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/handover"
)

// httpSocket is the socket of metrics and health. A new process inherits it.
type httpSocket struct {
	address string // "": none

	mu        sync.Mutex
	inherited net.Listener // was not returned by listen yet
	current   net.Listener // the last one that listen has returned
}

// receive sets the socket that the previous process passes, which it opened for address.
func (s *httpSocket) receive(f *os.File, address string) error {
	if f == nil {
		return nil
	}
	defer f.Close()
	if address != s.address {
		return nil
	}
	l, err := net.FileListener(f)
	if err != nil {
		return fmt.Errorf("inheriting the socket of metrics and health: %w", err)
	}
	s.inherited = l
	return nil
}

// listen opens the socket.
func (s *httpSocket) listen(ctx context.Context) (l net.Listener, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, s.inherited = s.inherited, nil
	if l == nil {
		l, err = daemon.ListenHTTP(ctx, s.address)
	}
	s.current = l
	return l, err
}

// file returns a copy of the socket, nil if it is not open.
func (s *httpSocket) file() *os.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.current.(*net.TCPListener); ok {
		if f, err := handover.Duplicate(l); err == nil { // fails if it was closed
			return f
		}
	}
	return nil
}
