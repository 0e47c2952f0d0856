// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
)

// The messages on a link.
const (
	ready     = "ready"     // the new process serves
	refused   = "refused "  // and the reason: the new process cannot serve
	confirmed = "confirmed" // the new process is the main one
	calls     = "calls "    // and a number: that many calls are in progress in the old process
	stop      = "stop"      // the old process must end
)

// maxMessage is the length of the longest message in octets.
const maxMessage = 4096

// A link is a connection between two processes that keeps the boundaries of messages.
type link struct{ *net.UnixConn }

// newLink returns a link on an open file, which it closes.
func newLink(f *os.File) (link, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return link{}, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return link{}, fmt.Errorf("%s is not a unix socket", f.Name())
	}
	return link{u}, nil
}

func (l link) send(message string) error {
	_, err := l.Write([]byte(message[:min(len(message), maxMessage)]))
	return err
}

// receive returns the next message. The error is io.EOF if the other process has closed the
// link, which it does when it ends.
func (l link) receive() (string, error) {
	b := make([]byte, maxMessage)
	n, err := l.Read(b)
	return strings.ToValidUTF8(string(b[:n]), "?"), err
}

// isEnd reports whether err is that of a link that the other process, or this one, has closed. If
// the other process did not read all messages, the kernel resets the connection.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || isReset(err)
}
