// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
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
