// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// callError is the error of a call, in the words of [describeCall].
type callError struct {
	text string
	err  error // of gRPC
}

// newCallError returns the error of a call to the socket at path. next says what to do if no process
// serves the socket.
func newCallError(path, next string, err error) *callError {
	return &callError{describeCall(path, next, status.Convert(err)), err}
}

func (e *callError) Error() string { return e.text }

func (e *callError) Unwrap() error { return e.err }

// describeCall returns why the socket at path cannot be reached, or what its server replied, without the
// words of gRPC.
func describeCall(path, next string, s *status.Status) string {
	text := strings.TrimPrefix(s.Message(), "latest balancer error: ")
	if quoted, ok := strings.CutPrefix(text, "connection error: desc = "); ok { // transport.ConnectionError.Error
		if plain, err := strconv.Unquote(quoted); err == nil {
			text = plain
		}
	}
	text = strings.TrimPrefix(text, "transport: Error while dialing: ")
	if dialed, ok := strings.CutPrefix(text, "dial unix "); ok {
		if at, reason, ok := strings.Cut(dialed, ": connect: "); ok {
			return describeDial(path, at, reason, next)
		}
	}
	if s.Code() == codes.DeadlineExceeded && strings.HasPrefix(text, "context deadline exceeded") {
		return "no reply in time"
	}
	return cmp.Or(text, s.Code().String())
}

// describeDial returns why there is no connection to the socket at. A shim replies with the error of the
// runtime's socket, which is not the one of the call.
func describeDial(path, at, reason, next string) string {
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
