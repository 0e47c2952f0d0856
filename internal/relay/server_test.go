// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/net/multiplex"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
)

// serveRegistration replies to the registration of a plugin, and calls nothing.
func serveRegistration(conn net.Conn) error {
	mux := multiplex.Multiplex(conn)
	defer mux.Close()
	c, err := mux.Open(multiplex.RuntimeServiceConn)
	if err != nil {
		return err
	}
	r := bufio.NewReaderSize(c, 64<<10) // c refuses reads that are shorter than a message
	// The header of github.com/containerd/ttrpc: length, stream, type and flags.
	header := make([]byte, 10)
	if _, err := io.ReadFull(r, header); err != nil {
		return err
	}
	if _, err := r.Discard(int(binary.BigEndian.Uint32(header))); err != nil {
		return err
	}
	binary.BigEndian.PutUint32(header, 0) // a message without fields
	header[8] = 2                         // a response
	if _, err := c.Write(header); err != nil {
		return err
	}
	_, err = r.ReadByte() // until the relay ends
	return err
}

// TestServer_NotConfigured: a relay whose registration the runtime has accepted, and which it does not
// configure, ends, so that it is started again. It would wait for ever.
func TestServer_NotConfigured(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(directory, "nri.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = serveRegistration(conn) // it ends with an error
		}
	}()
	log, err := daemon.NewLogWriter(t.Output(), "text")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Start()()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s := &Server{Socket: listener.Addr().String(), Agent: filepath.Join(directory, "agent.sock"), Log: log.Logger(), Writer: log}
	if err := s.Run(ctx); !errors.Is(err, errStuck) {
		t.Errorf("got %v, want %v", err, errStuck)
	}
}
