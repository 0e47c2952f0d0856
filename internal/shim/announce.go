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
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
)

const (
	// maxStarted is the number of sandboxes that have started and whose path is not known yet.
	maxStarted = 1024

	listPause   = time.Second      // between two lists of a runtime that fails
	retryPause  = 30 * time.Second // until all sandboxes are announced again, if the path of one was not found
	callTimeout = 10 * time.Second // of a call of the runtime
)

// An announcer sends the sandboxes of the runtime to the agent of the node, if there is one. It finds
// their files with calls of its own, for which the kubelet does not wait, and keeps no list of them.
type announcer struct {
	link    podfile.Link
	runtime *cri.Client
	started chan startedSandbox
	log     *slog.Logger

	mu     sync.Mutex
	logged string // the problem that is logged once while it lasts
}

// startedSandbox is a sandbox that the runtime has created for a request.
type startedSandbox struct {
	id      string
	request podfile.Request
}

// newAnnouncer returns an announcer for the socket of the agent.
func newAnnouncer(agent string, runtime *cri.Client, log *slog.Logger) *announcer {
	a := &announcer{runtime: runtime, started: make(chan startedSandbox, maxStarted), log: log}
	a.link = podfile.Link{Socket: agent, Optional: true, Replay: a.replay, Log: log}
	return a
}

// run announces sandboxes until ctx ends.
func (a *announcer) run(ctx context.Context) error {
	return daemon.RunAll(ctx, a.link.Run, a.announceStarted)
}

// add announces a sandbox, for cri.Shim.Started. A request with more text than two files may have is
// not known to the agent.
func (a *announcer) add(id string, r cri.Report) {
	if id == "" || !a.link.IsConnected() { // the next agent gets all sandboxes
		return
	}
	q := podfile.Request{Outcome: string(r.Outcome), Kubelet: r.Sandbox.DNS.String(), Decision: r.DNS.String()}
	if len(q.Kubelet)+len(q.Decision) > 2*podfile.MaxSize {
		q = podfile.Request{}
	}
	select {
	case a.started <- startedSandbox{id, q}:
	default: // the runtime does not reply
		a.link.Reconnect()
	}
}

// remove announces the end of a sandbox, for cri.Shim.Stopped.
func (a *announcer) remove(id string) {
	a.link.Send(podfile.Event{Kind: podfile.Removed, Sandbox: podfile.Sandbox{ID: id}})
}

// announceStarted announces the sandboxes of add.
func (a *announcer) announceStarted(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-a.started:
			e, err := a.describe(ctx, s.id, s.request)
			a.report(ctx, err)
			if err == nil {
				a.link.Send(e)
			}
		}
	}
}

// replay announces all sandboxes that run, for [podfile.Link]. It waits for a runtime that fails.
func (a *announcer) replay(ctx context.Context, send func(podfile.Event) error) error {
	if err := send(podfile.Event{Kind: podfile.Reset}); err != nil {
		return err
	}
	list, err := a.list(ctx)
	for ; err != nil; list, err = a.list(ctx) {
		a.logProblem(ctx, err)
		if err := send(podfile.Event{Kind: podfile.Unsynchronized}); err != nil {
			return err
		}
		select {
		case <-time.After(listPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var failed error
	for _, id := range list {
		e, err := a.describe(ctx, id, podfile.Request{})
		if err != nil {
			failed = cmp.Or(failed, err)
		} else if err := send(e); err != nil {
			return err
		}
	}
	a.report(ctx, failed)
	return send(podfile.Event{Kind: podfile.Synchronized})
}

func (a *announcer) list(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return a.runtime.ReadySandboxes(ctx)
}

// errNoPath is the error of a runtime that does not report where the files of a sandbox are.
var errNoPath = errors.New("the container runtime does not report the path of the sandbox's resolv.conf")

// describe returns the event about a sandbox.
func (a *announcer) describe(ctx context.Context, id string, request podfile.Request) (podfile.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	status, path, err := a.runtime.SandboxStatus(ctx, id)
	if err == nil && path == "" {
		err = errNoPath
	}
	e := podfile.Event{Kind: podfile.Running, Path: path, Request: &request, Sandbox: podfile.Sandbox{
		ID: id, Namespace: status.Namespace, Name: status.Name, UID: status.UID, HostNetwork: status.HostNetwork,
		Annotations: podfile.BoundAnnotations(status.Annotations),
	}}
	for _, ip := range status.IPs {
		e.Sandbox.IPs = append(e.Sandbox.IPs, ip.String())
	}
	return e, err
}

// report logs why a sandbox was not announced; nil: all were. All sandboxes are announced again later.
func (a *announcer) report(ctx context.Context, err error) {
	a.logProblem(ctx, err)
	if err != nil && !errors.Is(err, errNoPath) {
		time.AfterFunc(retryPause, a.link.Reconnect)
	}
}

// logProblem logs a problem unless it was the last one. nil: there is none.
func (a *announcer) logProblem(ctx context.Context, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.logged = ""
		return
	}
	if text := err.Error(); ctx.Err() == nil && text != a.logged {
		a.logged = text
		a.log.Warn("cannot announce sandboxes to the agent, retrying", "error", text)
	}
}
