// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package podfile

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"
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

// Result is the result of an event that the agent acknowledges.
type Result string

// The results.
const (
	Acknowledged Result = "acknowledged"
	TimedOut     Result = "timeout"
	NotWaited    Result = "not_waited"    // an earlier event has timed out, and the agent has not replied since
	Disconnected Result = "not_connected" // there is no agent
)

// Results returns all results.
func Results() []Result { return []Result{Acknowledged, TimedOut, NotWaited, Disconnected} }

// Link is the connection of a relay or a shim to the agent. Set the fields before Run. Its methods except
// Run do not block, or at most for askTimeout.
type Link struct {
	Socket string // path
	Log    *slog.Logger

	// Optional says that there may be no agent: it is logged only when a connection is lost.
	Optional bool

	// Replay is called for each connection, and sends the events that describe all sandboxes.
	Replay func(ctx context.Context, send func(Event) error) error

	mu       sync.Mutex
	conn     net.Conn // nil: not connected
	queue    chan Event
	sequence uint64
	waiting  map[uint64]chan Ack // closed when the connection ends
	slow     bool                // the agent has not replied in time, and has not replied to another event since
}

// Run connects to the agent, again and again, until ctx ends.
func (l *Link) Run(ctx context.Context) error {
	logged, silent := "", l.Optional
	for backoff := firstBackoff; ctx.Err() == nil; backoff = min(2*backoff, lastBackoff) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", l.Socket)
		if err == nil {
			l.Log.Info("agent connected")
			logged, backoff, silent = "", firstBackoff, false
			err = l.serve(ctx, conn)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && err.Error() != logged && !silent {
			logged, silent = err.Error(), l.Optional
			l.Log.Warn("agent not connected, retrying", "error", err)
		}
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
		}
	}
	return nil
}

// serve sends events until the connection ends.
func (l *Link) serve(ctx context.Context, conn net.Conn) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	queue := make(chan Event, queueSize)
	l.mu.Lock()
	l.conn, l.queue, l.waiting, l.slow = conn, queue, map[uint64]chan Ack{}, false
	l.mu.Unlock()
	ended := make(chan error, 1)
	go func() {
		ended <- Read(conn, func(a Ack) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.slow = false
			if w := l.waiting[a.Sequence]; w != nil {
				w <- a
				delete(l.waiting, a.Sequence)
			}
			return nil
		})
		conn.Close() // ends a write
	}()
	err := l.write(ctx, conn, queue, ended)
	conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.waiting {
		close(w)
	}
	l.conn, l.waiting = nil, nil
	return err
}

// write writes the sandboxes of now and then the events of queue, until the connection ends.
func (l *Link) write(ctx context.Context, conn net.Conn, queue <-chan Event, ended <-chan error) error {
	send := func(e Event) error {
		if err := conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		return Write(conn, e)
	}
	// Events since connect are in the queue. An event that is also replayed is processed twice,
	// which changes nothing.
	if err := l.Replay(ctx, send); err != nil {
		return err
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

// IsConnected reports whether there is an agent.
func (l *Link) IsConnected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn != nil
}

// Reconnect ends the connection. The next one gets all sandboxes.
func (l *Link) Reconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		l.conn.Close()
	}
}

// Send queues e. Without an agent it does nothing: the next one gets all sandboxes.
func (l *Link) Send(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sendLocked(e)
}

func (l *Link) sendLocked(e Event) {
	if l.conn == nil {
		return
	}
	select {
	case l.queue <- e:
	default: // the agent does not read
		l.conn.Close()
	}
}

// Ask queues e and waits until the agent has acknowledged it.
func (l *Link) Ask(ctx context.Context, e Event) (Ack, Result) {
	wait, reason := l.enqueue(&e)
	if wait == nil {
		return Ack{}, reason
	}
	timeout := time.NewTimer(askTimeout)
	defer timeout.Stop()
	select {
	case a, ok := <-wait:
		if !ok {
			return a, Disconnected
		}
		return a, Acknowledged
	case <-ctx.Done(): // the runtime has given up
	case <-timeout.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = true
	delete(l.waiting, e.Sequence)
	return Ack{}, TimedOut
}

// enqueue sets the sequence number of e and queues it. It returns the channel of the result, or why
// there is none.
func (l *Link) enqueue(e *Event) (wait chan Ack, reason Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return nil, Disconnected
	}
	l.sequence++
	e.Sequence = l.sequence
	e.ExpireAfter(askTimeout)
	if l.slow {
		e.First = false // the container may run before the agent reads the event
		l.sendLocked(*e)
		return nil, NotWaited
	}
	l.sendLocked(*e)
	wait = make(chan Ack, 1)
	l.waiting[e.Sequence] = wait
	return wait, ""
}
