// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"syscall"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

// maxReply is the size of the largest reply that a client reads, in bytes: maxTexts, escaped.
const maxReply = 8 * maxTexts

// ErrNotServed is the error of a client when no agent serves the socket.
var ErrNotServed = errors.New("the agent does not run")

// StatusClient calls the agent of this node.
type StatusClient struct {
	Socket string // path
}

// Status returns the state of the agent.
func (c StatusClient) Status(ctx context.Context) (s v1alpha1.AgentStatus, err error) {
	return s, c.call(ctx, http.MethodGet, "/v1/status", &s)
}

// Pods returns the sandboxes of a pod, NAMESPACE/NAME; of all pods of the node if it is "".
func (c StatusClient) Pods(ctx context.Context, pod string) (pods v1alpha1.NodePods, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/pods", &pods)
	if err != nil || pod == "" {
		return pods, err
	}
	pods.Pods = slices.DeleteFunc(pods.Pods, func(p v1alpha1.NodePod) bool { return p.Namespace+"/"+p.Name != pod })
	if len(pods.Pods) == 0 {
		return pods, fmt.Errorf("%w: %s: dnsconfigurer pods lists those of this node", ErrUnknownPod, pod)
	}
	return pods, nil
}

// Refresh rewrites the files of a pod, NAMESPACE/NAME; of all pods if it is "".
func (c StatusClient) Refresh(ctx context.Context, pod string) (results []v1alpha1.NodeResult, err error) {
	return results, c.call(ctx, http.MethodPost, "/v1/refresh?pod="+url.QueryEscape(pod), &results)
}

// Restore restores the files of a pod, NAMESPACE/NAME; of all pods if it is "".
func (c StatusClient) Restore(ctx context.Context, pod string) (results []v1alpha1.NodeResult, err error) {
	return results, c.call(ctx, http.MethodPost, "/v1/restore?pod="+url.QueryEscape(pod), &results)
}

// call sends a request and decodes the reply.
func (c StatusClient) call(ctx context.Context, method, path string, into any) error {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", c.Socket)
	}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return c.describe(err)
	}
	defer response.Body.Close()
	decoder := json.NewDecoder(io.LimitReader(response.Body, maxReply))
	if response.StatusCode != http.StatusOK {
		var f statusError
		if err := decoder.Decode(&f); err != nil || f.Error == "" {
			return fmt.Errorf("%s: the agent replied %s", c.Socket, response.Status)
		}
		return errors.New(f.Error)
	}
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%s: reading the reply of the agent: %w", c.Socket, err)
	}
	return nil
}

// describe returns an error that says what to do.
func (c StatusClient) describe(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: permission denied: run this command as root", c.Socket)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: no process serves %s: start the service that runs dnsconfigurer agent, "+
			"or set --socket to its agent-status.sock", ErrNotServed, c.Socket)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // the host of its URL does not exist
	}
	return fmt.Errorf("%s: %w", c.Socket, err)
}
