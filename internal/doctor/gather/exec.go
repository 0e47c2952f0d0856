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
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
)

// The protocol of commands in containers, and its channels.
const (
	execProtocol = "v5.channel.k8s.io"

	streamStdout = 1
	streamStderr = 2
	streamStatus = 3
)

// readFile returns the /etc/resolv.conf of a container. Package remotecommand of client-go would read the status
// without a limit.
func readFile(ctx context.Context, cfg *rest.Config, c doctor.Container) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeletTime)
	defer cancel()
	conn, err := dialStream(ctx, cfg, c.Namespace, c.Pod, "exec", execProtocol, url.Values{
		"container": {c.Name}, "stdout": {"true"}, "stderr": {"true"}, "command": {"cat", "/etc/resolv.conf"},
	})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var out [streamStatus + 1]bytes.Buffer
	for {
		channel, data, err := conn.receive()
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case err != nil && out[streamStatus].Len() == 0:
			return "", fmt.Errorf("no exit code: %w", err)
		case err != nil:
			return out[streamStdout].String(), commandError(out[streamStatus].Bytes(), out[streamStderr].Bytes())
		case channel != streamStdout && channel != streamStderr && channel != streamStatus:
			return "", fmt.Errorf("a message of the unknown stream %d", channel)
		}
		out[channel].Write(data)
	}
}

// commandError returns the error of a command.
func commandError(text, stderr []byte) error {
	var status metav1.Status
	if err := json.Unmarshal(text, &status); err != nil {
		return fmt.Errorf("the status of the command: %w", err)
	}
	if status.Status == metav1.StatusSuccess {
		return nil
	}
	reason := string(bytes.TrimSpace(stderr))
	if status.Details != nil {
		for _, c := range status.Details.Causes {
			if c.Type == "ExitCode" {
				return fmt.Errorf("exit code %s: %s", c.Message, reason)
			}
		}
	}
	return errors.New(cmp.Or(status.Message, reason, "it failed without a reason"))
}
