// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
)

const (
	// askTimeout is how long the start of a container waits until the agent acknowledges its
	// event. The runtime disconnects a plugin after two seconds.
	askTimeout = 200 * time.Millisecond

	// writeTimeout ends the connection to an agent that does not read.
	writeTimeout = 5 * time.Second

	firstBackoff = 50 * time.Millisecond // between two attempts to connect
	lastBackoff  = 2 * time.Second

	queueSize = 4096 // events; the largest nodes have about a thousand sandboxes
)

// result is the result of an event that the agent acknowledges.
type result string

const (
	acknowledged result = "acknowledged"
	timedOut     result = "timeout"
	notWaited    result = "not_waited"    // an earlier event has timed out, and the agent has not replied since
	disconnected result = "not_connected" // there is no agent
)

var results = []result{acknowledged, timedOut, notWaited, disconnected}

// link is the connection to the agent. Its methods except run do not block, or at most for
// askTimeout.
type link struct {
	socket string
	replay func() []podfile.Event // the events that describe all sandboxes
	log    *slog.Logger

	mu       sync.Mutex
	conn     net.Conn // nil: not connected
	queue    chan podfile.Event
	sequence uint64
	waiting  map[uint64]chan podfile.Ack // closed when the connection ends
	slow     bool                        // the agent has not replied in time, and has not replied to another event since
}

// run connects to the agent, again and again, until ctx ends.
func (l *link) run(ctx context.Context) error {
	logged := ""
	for backoff := firstBackoff; ctx.Err() == nil; backoff = min(2*backoff, lastBackoff) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", l.socket)
		if err == nil {
			l.log.Info("agent connected")
			logged, backoff = "", firstBackoff
			err = l.serve(ctx, conn)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && err.Error() != logged {
			logged = err.Error()
			l.log.Warn("agent not connected, retrying", "error", err)
		}
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
		}
	}
	return nil
}

// serve sends events until the connection ends.
func (l *link) serve(ctx context.Context, conn net.Conn) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	queue := l.connect(conn)
	ended := make(chan error, 1)
	go func() {
		ended <- podfile.Read(conn, func(a podfile.Ack) error {
			l.acknowledge(a)
			return nil
		})
		conn.Close() // ends a write
	}()
	err := l.write(conn, queue, ended)
	l.disconnect(conn)
	return err
}

// write writes the sandboxes of now and then the events of queue, until the connection ends.
func (l *link) write(conn net.Conn, queue <-chan podfile.Event, ended <-chan error) error {
	send := func(e podfile.Event) error {
		if err := conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		return podfile.Write(conn, e)
	}
	// Events since connect are in the queue. An event that is also replayed is processed twice,
	// which changes nothing.
	for _, e := range l.replay() {
		if err := send(e); err != nil {
			return err
		}
	}
	for {
		select {
		case err := <-ended:
			return err
		case e := <-queue:
			if err := send(e); err != nil {
				return err
			}
		}
	}
}

func (l *link) connect(conn net.Conn) <-chan podfile.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn, l.queue, l.waiting, l.slow = conn, make(chan podfile.Event, queueSize), map[uint64]chan podfile.Ack{}, false
	return l.queue
}

func (l *link) disconnect(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	conn.Close()
	l.conn = nil
	for _, w := range l.waiting {
		close(w)
	}
	l.waiting = nil
}

func (l *link) acknowledge(a podfile.Ack) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = false
	if w := l.waiting[a.Sequence]; w != nil {
		w <- a
		delete(l.waiting, a.Sequence)
	}
}

// isConnected reports whether there is an agent.
func (l *link) isConnected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn != nil
}

// send queues e. Without an agent it does nothing: the next one gets all sandboxes.
func (l *link) send(e podfile.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sendLocked(e)
}

func (l *link) sendLocked(e podfile.Event) {
	if l.conn == nil {
		return
	}
	select {
	case l.queue <- e:
	default: // the agent does not read
		l.conn.Close()
	}
}

// ask queues e and waits until the agent has acknowledged it.
func (l *link) ask(ctx context.Context, e podfile.Event) (podfile.Ack, result) {
	wait, reason := l.enqueue(&e)
	if wait == nil {
		return podfile.Ack{}, reason
	}
	timeout := time.NewTimer(askTimeout)
	defer timeout.Stop()
	select {
	case a, ok := <-wait:
		if !ok {
			return a, disconnected
		}
		return a, acknowledged
	case <-ctx.Done(): // the runtime has given up
	case <-timeout.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = true
	delete(l.waiting, e.Sequence)
	return podfile.Ack{}, timedOut
}

// enqueue sets the sequence number of e and queues it. It returns the channel of the result, or why
// there is none.
func (l *link) enqueue(e *podfile.Event) (wait chan podfile.Ack, reason result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return nil, disconnected
	}
	l.sequence++
	e.Sequence = l.sequence
	e.ExpireAfter(askTimeout)
	if l.slow {
		e.First = false // the container may run before the agent reads the event
		l.sendLocked(*e)
		return nil, notWaited
	}
	l.sendLocked(*e)
	wait = make(chan podfile.Ack, 1)
	l.waiting[e.Sequence] = wait
	return wait, ""
}

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
func (p *plugin) awaitStops(ctx context.Context) {
	if startedByRuntime() { // it waits for the relay, and has no stops yet
		return
	}
	defer p.setWait("")
	began, logged := time.Now(), ""
	for lastKnown := began; ctx.Err() == nil; {
		ack, result := p.link.ask(ctx, podfile.Event{Kind: podfile.Registering})
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
		select {
		case <-time.After(stopPause):
		case <-ctx.Done():
		}
	}
}

// waitReason returns why the relay must not register yet, "" if it may.
func waitReason(ack podfile.Ack, r result) string {
	switch {
	case r == disconnected:
		return "the agent is not connected"
	case r != acknowledged:
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
