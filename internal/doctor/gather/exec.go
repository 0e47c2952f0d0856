// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
)

const (
	// maxFile is the size of a resolv.conf of which more is not read: sixteen times the
	// longest one of a kubelet.
	maxFile = 64 << 10

	// maxMessages is the number of messages of a command of which more are not read. A message
	// may be empty.
	maxMessages = 1000
)

// The protocol of commands in containers, and its streams: the first byte of a message.
const (
	execProtocol = "v5.channel.k8s.io"

	streamStdout = 1
	streamStderr = 2
	streamStatus = 3
)

// readFile returns the /etc/resolv.conf of a container.
func readFile(ctx context.Context, cfg *rest.Config, c doctor.Container) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeletTime)
	defer cancel()
	api, err := cluster.NewClient(cfg, corev1.SchemeGroupVersion, &corev1.Pod{})
	if err != nil {
		return "", err
	}
	url := api.Get().Namespace(c.Namespace).Resource("pods").Name(c.Pod).SubResource("exec").
		Param("container", c.Name).Param("stdout", "true").Param("stderr", "true").
		Param("command", "cat").Param("command", "/etc/resolv.conf").URL()
	// Package remotecommand of client-go would read the status without a limit; a node controls
	// it.
	conn, err := dialStream(ctx, cfg, url, execProtocol)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var r execReply
	err = r.read(conn.next)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return r.stdout.String(), err
}

// execReply is what a command in a container has written.
type execReply struct{ stdout, stderr, status bytes.Buffer }

// read reads messages until the connection ends. The error is that of the command, too.
func (r *execReply) read(next func() (io.Reader, error)) error {
	for range maxMessages {
		message, err := next()
		if err != nil && r.status.Len() == 0 {
			return fmt.Errorf("no exit code: %w", err)
		}
		if err != nil {
			return r.result()
		}
		if err := r.readMessage(message); err != nil {
			return err
		}
	}
	return fmt.Errorf("more than %d messages", maxMessages)
}

// readMessage adds a message to its stream.
func (r *execReply) readMessage(message io.Reader) error {
	var stream [1]byte
	if _, err := io.ReadFull(message, stream[:]); err != nil {
		return fmt.Errorf("a message without a stream: %w", err)
	}
	buffer, ok := map[byte]*bytes.Buffer{
		streamStdout: &r.stdout, streamStderr: &r.stderr, streamStatus: &r.status,
	}[stream[0]]
	if !ok {
		return fmt.Errorf("a message of the unknown stream %d", stream[0])
	}
	if _, err := buffer.ReadFrom(io.LimitReader(message, maxFile+1-int64(buffer.Len()))); err != nil {
		return err
	}
	if buffer.Len() > maxFile {
		return fmt.Errorf("more than %d bytes", maxFile)
	}
	return nil
}

// result returns the error of the command.
func (r *execReply) result() error {
	var status metav1.Status
	if err := json.Unmarshal(r.status.Bytes(), &status); err != nil {
		return fmt.Errorf("the status of the command: %w", err)
	}
	if status.Status == metav1.StatusSuccess {
		return nil
	}
	stderr := string(bytes.TrimSpace(r.stderr.Bytes()))
	if status.Details != nil {
		for _, c := range status.Details.Causes {
			if c.Type == "ExitCode" {
				return fmt.Errorf("exit code %s: %s", c.Message, stderr)
			}
		}
	}
	return errors.New(cmp.Or(status.Message, stderr, "it failed without a reason"))
}
