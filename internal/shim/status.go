// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
)

// statusSocket is the socket of the commands pods, refresh, restore and status. A new process
// inherits it: a connection waits in it until that process is the main one.
type statusSocket struct {
	path string // "": none

	mu        sync.Mutex
	inherited *cri.Listener // was not returned by listen yet
	current   *cri.Listener // the last one that listen has returned
}

// receive takes the socket that the previous process serves at path, and closes the files. A
// process of an earlier version does not pass it.
func (s *statusSocket) receive(socket, lock *os.File, path string) error {
	if socket == nil || lock == nil {
		return nil
	}
	if path != s.path {
		socket.Close()
		lock.Close()
		return nil
	}
	var err error
	s.inherited, err = cri.TakeOver(cri.Handoff{Path: path, RemoveSocket: true, Socket: socket, Lock: lock})
	return err
}

// listen opens the socket.
func (s *statusSocket) listen() (net.Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.inherited
	s.inherited = nil
	if l == nil {
		var err error
		if l, err = cri.Listen(s.path); err != nil {
			return nil, fmt.Errorf("statusSocket: %w", err)
		}
	}
	s.current = l
	return l, nil
}

// add adds the socket to the files for a new process, and its path to the state. The caller closes
// the returned file, which may be nil.
func (s *statusSocket) add(files map[string]*os.File, state *handoverState) *os.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil
	}
	h, err := s.current.Handoff()
	if err != nil { // it was closed
		return nil
	}
	files[fileStatus], files[fileStatusLock], state.StatusSocket = h.Socket, h.Lock, h.Path
	return h.Socket
}

// keepPath lets the path of the socket exist when this process closes it: the new process serves it.
func (s *statusSocket) keepPath() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		s.current.KeepSocket()
	}
}
