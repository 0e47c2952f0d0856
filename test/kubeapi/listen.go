// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// listener serves the API on a port.
type listener struct {
	http *http.Server
	done chan struct{}
}

// Start serves the API on 127.0.0.1 and returns its URL. After Stop it uses the same port
// again.
func (s *Server) Start() (url string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.address == "" {
		s.address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", s.address)
	if err != nil {
		return "", fmt.Errorf("listen for the API: %w", err)
	}
	s.address = l.Addr().String()
	s.listener = &listener{&http.Server{Handler: s, ReadHeaderTimeout: time.Minute}, make(chan struct{})}
	go func(l net.Listener, s *listener) {
		defer close(s.done)
		_ = s.http.Serve(l)
	}(l, s.listener)
	return "http://" + s.address, nil
}

// Stop ends all requests and refuses new connections until Start.
func (s *Server) Stop() {
	s.mu.Lock()
	l := s.listener
	s.listener = nil
	s.mu.Unlock()
	if l != nil {
		_ = l.http.Close()
		<-l.done
	}
}

// Kubeconfig returns a kubeconfig file for the API at url.
func Kubeconfig(url string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q}}]
users: [{name: test, user: {}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
current-context: test
`, url)
}

// Faults for [Server.SetFault].

// Stall sends nothing until the client gives up.
func Stall(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// Truncate sends the beginning of a JSON object and ends in the middle.
func Truncate(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"kind":"Service","apiVersion":"v1","metadata":{"uid":7`)
}

// Fail responds with 500 Internal Server Error.
func Fail(w http.ResponseWriter, r *http.Request) {
	fail(w, r, http.StatusInternalServerError, metav1.StatusReasonInternalError)
}

// Forbid responds with 403 Forbidden.
func Forbid(w http.ResponseWriter, r *http.Request) {
	fail(w, r, http.StatusForbidden, metav1.StatusReasonForbidden)
}
