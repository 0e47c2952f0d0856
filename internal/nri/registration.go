// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nri

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
)

const (
	// stopLimit is the longest wait for pods that are being stopped. Grace periods of ten minutes are
	// common, on a busy node one stop follows another, and the pods that start meanwhile have the
	// kubelet's DNS.
	stopLimit = 15 * time.Minute

	// silenceLimit is the longest wait for an agent that knows the pods of the node.
	silenceLimit = 30 * time.Second

	stopPause = 250 * time.Millisecond // between two questions
	quietWait = time.Second            // a shorter wait is not logged: the agent connects
)

// startedByRuntime reports whether the container runtime has started the relay, and sets its name, its
// index and the connection.
func startedByRuntime() bool { return os.Getenv(api.PluginIdxEnvVar) != "" }

// awaitStops returns when the agent knows of no pod that is being stopped, or after a limit: a
// registration waits for the end of all stops, and containerd starts no pod before it. The runtime does
// not show its stops.
func (p *plugin) awaitStops(ctx context.Context, ask func(context.Context, podfile.Event) (podfile.Ack, podfile.Result)) {
	if startedByRuntime() { // it waits for the relay, and has no stops yet
		return
	}
	defer p.setWait("")
	began, logged := time.Now(), ""
	for lastKnown := began; ctx.Err() == nil; {
		ack, result := ask(ctx, podfile.Event{Kind: podfile.Registering})
		reason := waitReason(ack, result)
		if reason == "" {
			return
		}
		p.setWait(reason)
		if ack.Stopping > 0 {
			lastKnown = time.Now()
		}
		if time.Since(began) >= stopLimit || time.Since(lastKnown) >= silenceLimit {
			p.log.Warn("registering although pods may be stopping: containerd starts no pod until they have stopped", "reason", reason)
			return
		}
		if reason != logged && time.Since(began) >= quietWait {
			logged = reason
			p.log.Info("waiting to register with the container runtime", "reason", reason)
		}
		daemon.Sleep(ctx, stopPause)
	}
}

// waitReason returns why the relay must not register yet, "" if it may.
func waitReason(ack podfile.Ack, r podfile.Result) string {
	switch {
	case r == podfile.Disconnected:
		return "the agent is not connected"
	case r != podfile.Acknowledged:
		return "the agent does not reply"
	case ack.Unknown:
		return "the agent does not know the pods of this node yet"
	case ack.Stopping > 0:
		return fmt.Sprintf("pods that are being stopped on this node: %d", ack.Stopping)
	}
	return ""
}

// setWait sets why the relay waits, "" if it does not.
func (p *plugin) setWait(reason string) {
	p.wait.Store(&reason)
	p.metrics.setWaiting(reason != "")
}

// waitsFor returns why the relay waits, "" if it does not.
func (p *plugin) waitsFor() string {
	if reason := p.wait.Load(); reason != nil {
		return *reason
	}
	return ""
}
