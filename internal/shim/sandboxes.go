// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/internal/sandboxdns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
)

const (
	// listInterval is the interval at which the sandboxes of the runtime are listed while none
	// is about to start. The kubelet lists them every second.
	listInterval = 30 * time.Second

	// startInterval is the same while the sandbox of a request was not found yet.
	startInterval = time.Second

	// requestTimeout is the time after which a request without a sandbox has failed: the
	// kubelet waits 4 minutes for the runtime.
	requestTimeout = 5 * time.Minute

	// maxRequests is the number of requests without a sandbox that are kept.
	maxRequests = 1024

	// runtimeTimeout limits a call of the runtime.
	runtimeTimeout = 10 * time.Second
)

// sandboxes finds the running sandboxes of the runtime, so that their files can follow changes.
// The proxied calls do not wait for it: it lists the sandboxes with calls of its own.
type sandboxes struct {
	dns    *sandboxdns.Applier
	log    *slog.Logger
	socket string        // path of the status socket; "": none
	wake   chan struct{} // has a token when settings or requests were added

	mu          sync.Mutex
	hasSettings bool
	enabled     bool                      // files can change: refresh is on, or there is a status socket
	requests    map[string]pendingRequest // by the UID of the pod

	// Used by run only.
	known  map[string]bool // IDs of the sandboxes that dns has
	logged string          // the problem that is logged once while it repeats
}

// pendingRequest is a request whose sandbox was not found yet.
type pendingRequest struct {
	sandboxdns.Request
	at time.Time
}

func newSandboxes(dns *sandboxdns.Applier, log *slog.Logger) *sandboxes {
	return &sandboxes{
		dns: dns, log: log, wake: make(chan struct{}, 1),
		requests: map[string]pendingRequest{}, known: map[string]bool{},
	}
}

// setSettings applies settings.
func (s *sandboxes) setSettings(settings *sandboxdns.Settings) {
	s.dns.SetSettings(settings)
	s.mu.Lock()
	s.hasSettings = true
	s.enabled = s.socket != "" || settings.Refresh != sandboxdns.ScopeOff
	s.mu.Unlock()
	s.notify()
}

func (s *sandboxes) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// record keeps the outcome of a request until its sandbox is found. An outcome with more text than a
// file may have is not kept.
func (s *sandboxes) record(r cri.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kubelet := r.Sandbox.DNS
	if !s.enabled || len(s.requests) >= maxRequests || len(kubelet.String())+len(r.DNS.String()) > 2*podfile.MaxSize {
		return
	}
	s.requests[r.Sandbox.UID] = pendingRequest{
		sandboxdns.Request{Outcome: r.Outcome, Kubelet: kubelet, Decision: r.DNS}, time.Now(),
	}
	s.notify()
}

// run keeps the files of sandboxes up to date until ctx ends. Without settings it waits for them.
func (s *sandboxes) run(ctx context.Context, runtime string) error {
	for !s.isConfigured() {
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil
		}
	}
	client, err := cri.NewClient(runtime)
	if err != nil {
		return err
	}
	defer client.Close()
	defer s.dns.Wait()
	return daemon.RunAll(ctx, s.dns.Run, func(ctx context.Context) error { return s.watch(ctx, client) })
}

func (s *sandboxes) isConfigured() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasSettings
}

// watch lists the sandboxes until ctx ends: at an interval, and soon after a request.
func (s *sandboxes) watch(ctx context.Context, client *cri.Client) error {
	for ctx.Err() == nil {
		s.update(ctx, client)
		interval := s.interval()
		select {
		case <-time.After(interval):
		case <-ctx.Done():
		case <-s.wake:
			select { // the sandbox of a request is about to start
			case <-time.After(min(interval, startInterval)):
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// interval returns the time to the next list, and removes requests without a sandbox.
func (s *sandboxes) interval() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, r := range s.requests {
		if time.Since(r.at) > requestTimeout {
			delete(s.requests, uid)
		}
	}
	if len(s.requests) > 0 {
		return startInterval
	}
	return listInterval
}

// update adds the sandboxes that are new, and removes those that do not run any more.
func (s *sandboxes) update(ctx context.Context, client *cri.Client) {
	s.mu.Lock()
	enabled := s.enabled
	s.mu.Unlock()
	if !enabled {
		clear(s.known)
		s.dns.Retain(nil)
		return
	}
	calls, cancel := context.WithTimeout(ctx, runtimeTimeout)
	list, err := client.ReadySandboxes(calls)
	cancel()
	if err != nil {
		s.logProblem(ctx, "cannot list the sandboxes of the container runtime, retrying", err)
		return
	}
	keep := map[string]bool{}
	var failed error
	for _, ref := range list {
		keep[ref.ID] = true
		if !s.known[ref.ID] {
			failed = cmp.Or(failed, s.add(ctx, client, ref))
		}
	}
	s.logProblem(ctx, "cannot find the file of a sandbox, retrying", failed)
	for id := range s.known {
		if !keep[id] {
			delete(s.known, id)
		}
	}
	s.dns.Retain(keep)
}

// errNoPath is the error of a runtime that does not report where the files of a sandbox are.
var errNoPath = errors.New("the container runtime does not report the path of the sandbox's resolv.conf")

// add finds the file of a sandbox and adds the sandbox. If it fails, the next update tries again.
func (s *sandboxes) add(ctx context.Context, client *cri.Client, ref cri.SandboxRef) error {
	calls, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	status, path, err := client.SandboxStatus(calls, ref.ID)
	if err == nil && path == "" {
		err = errNoPath
	}
	if err != nil {
		return err
	}
	e := podfile.Sandbox{
		ID: ref.ID, Namespace: status.Namespace, Name: status.Name, UID: status.UID, HostNetwork: status.HostNetwork,
		Annotations: podfile.BoundAnnotations(status.Annotations),
	}
	for _, ip := range status.IPs {
		e.IPs = append(e.IPs, ip.String())
	}
	s.known[ref.ID] = true
	s.dns.Adopt(ctx, e, path, s.removeRequest(ref.UID))
	return nil
}

// removeRequest removes the request of the pod with this UID, and returns it. nil: none.
func (s *sandboxes) removeRequest(uid string) *sandboxdns.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.requests[uid]
	if !ok {
		return nil
	}
	delete(s.requests, uid)
	return &r.Request
}

// logProblem logs the problem of an update, unless the last update had the same one. nil: none.
func (s *sandboxes) logProblem(ctx context.Context, message string, err error) {
	if err == nil {
		s.logged = ""
		return
	}
	if text := err.Error(); ctx.Err() == nil && text != s.logged {
		s.logged = text
		s.log.Warn(message, "error", text)
	}
}
