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
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/netutil"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

const (
	maxConnections  = 8
	maxTexts        = 8 << 20 // of the files in a reply, in bytes: those of 1,000 pods have 2 MiB
	headerTimeout   = 5 * time.Second
	idleTimeout     = 10 * time.Second
	shutdownTimeout = 5 * time.Second
	replyTimeout    = 2 * time.Minute // a refresh of 8,192 pods at the default rate takes 41 s
)

// ErrUnknownPod is the error of commands for a pod that the node does not have.
var ErrUnknownPod = errors.New("unknown pod")

// StatusServer serves the pods of a node. All functions are required and may be called at the same
// time, except Refresh and Restore: one at a time. With an empty name these are for all pods.
type StatusServer struct {
	Status  func() v1alpha1.AgentStatus
	Pods    func() []v1alpha1.NodePod
	Refresh func(ctx context.Context, namespace, name string) ([]v1alpha1.NodeResult, error)
	Restore func(ctx context.Context, namespace, name string) ([]v1alpha1.NodeResult, error)

	command sync.Mutex
}

// Serve serves until ctx ends, with a few connections at a time. Requests in progress then complete,
// except commands, which end before the next pod. It closes l.
func (s *StatusServer) Serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, s.Status()) })
	mux.HandleFunc("GET /v1/pods", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, bound(s.Pods())) })
	mux.HandleFunc("POST /v1/refresh", s.serveCommand(s.Refresh))
	mux.HandleFunc("POST /v1/restore", s.serveCommand(s.Restore))
	server := &http.Server{
		Handler: mux, MaxHeaderBytes: 8 << 10,
		ReadTimeout: headerTimeout, WriteTimeout: replyTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx }, // commands end with it
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(netutil.LimitListener(l, maxConnections)) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving the status of pods: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if server.Shutdown(last) != nil {
		_ = server.Close()
	}
	return nil
}

type commandFunc = func(ctx context.Context, namespace, name string) ([]v1alpha1.NodeResult, error)

func (s *StatusServer) serveCommand(run commandFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		pod := r.URL.Query().Get("pod")
		namespace, name, found := strings.Cut(pod, "/")
		if pod != "" && (!found || namespace == "" || name == "") {
			reply(w, http.StatusBadRequest, statusError{fmt.Sprintf("%q is not NAMESPACE/NAME", pod)})
			return
		}
		s.command.Lock()
		defer s.command.Unlock()
		results, err := run(r.Context(), namespace, name)
		switch {
		case errors.Is(err, ErrUnknownPod):
			reply(w, http.StatusNotFound, statusError{err.Error()})
		case err != nil:
			reply(w, http.StatusInternalServerError, statusError{err.Error()})
		default:
			reply(w, http.StatusOK, results)
		}
	}
}

// statusError is the body of a reply with an error.
type statusError struct {
	Error string `json:"error"`
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client has disconnected
}

// bound removes the files of pods that would make the reply too large.
func bound(pods []v1alpha1.NodePod) v1alpha1.NodePods {
	all, size := v1alpha1.NodePods{Pods: pods}, 0
	for i := range pods {
		p := &pods[i]
		size += len(p.Expected) + len(p.Actual)
		if size > maxTexts {
			p.Expected, p.Actual = "", ""
			all.Omitted++
		}
	}
	return all
}

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
