// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package podfile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// newLink returns a link that runs until t ends, and the listener of its agent.
func newLink(t *testing.T) (*Link, net.Listener) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.sock")
	agents := must.Get(net.Listen("unix", path))(t)
	l := &Link{Socket: path, Log: slog.New(slog.DiscardHandler)}
	l.Replay = func(_ context.Context, send func(Event) error) error { return send(Event{Kind: Reset}) }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		agents.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l, agents
}

// accept returns the next connection, and a function that returns its next event. The first one was read.
func accept(t *testing.T, agents net.Listener) (conn net.Conn, next func() Event) {
	t.Helper()
	conn = must.Get(agents.Accept())(t)
	t.Cleanup(func() { conn.Close() })
	decoder := json.NewDecoder(conn)
	next = func() (e Event) {
		t.Helper()
		must.Succeed(t, decoder.Decode(&e))
		return e
	}
	if e := next(); e.Kind != Reset {
		t.Fatalf("%+v", e)
	}
	return conn, next
}

// TestLink_Late: a container that has stopped waiting for the agent leaves nothing behind, although the
// agent does not reply.
func TestLink_Late(t *testing.T) {
	l, agents := newLink(t)
	_, next := accept(t, agents)
	ended, end := context.WithCancel(t.Context())
	end()
	if _, got := l.Ask(ended, Event{Kind: Creating}); got != TimedOut {
		t.Errorf("got %s, want %s", got, TimedOut)
	}
	next()
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.waiting); n > 0 {
		t.Errorf("%d containers still wait", n)
	}
}

func isSlow(l *Link) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.slow
}

// TestLink_Slow: a container waits for an agent that does not reply once, and then no more until
// it replies.
func TestLink_Slow(t *testing.T) {
	l, agents := newLink(t)
	ask := func() Result {
		_, r := l.Ask(t.Context(), Event{Kind: Creating, First: true})
		return r
	}
	conn, next := accept(t, agents)
	acknowledge := func(e Event) {
		t.Helper()
		must.Succeed(t, Write(conn, Ack{Sequence: e.Sequence}))
	}
	began := time.Now()
	if got := ask(); got != TimedOut {
		t.Errorf("no reply: %s", got)
	}
	if waited := time.Since(began); waited < askTimeout || waited > askTimeout+time.Second {
		t.Errorf("waited %v, want %v", waited, askTimeout)
	}
	for range 3 {
		if got := ask(); got != NotWaited {
			t.Errorf("after a timeout: %s", got)
		}
	}
	var last Event
	for i := range 4 {
		last = next()
		if last.First != (i == 0) || last.Expires == 0 {
			t.Errorf("event %d of a container that does not wait: %+v", i, last)
		}
	}
	acknowledge(last)
	for isSlow(l) {
		time.Sleep(time.Millisecond)
	}
	got := make(chan Result, 1)
	go func() { got <- ask() }()
	acknowledge(next())
	if r := <-got; r != Acknowledged {
		t.Logf("the reply came after the timeout: %s", r) // on a busy machine
	}
	agents.Close()
	conn.Close()
	for l.IsConnected() {
		time.Sleep(time.Millisecond)
	}
	if got := ask(); got != Disconnected {
		t.Errorf("without an agent: %s", got)
	}
}

// TestLink_Full: an agent that does not read gets another connection with all sandboxes.
func TestLink_Full(t *testing.T) {
	l, agents := newLink(t)
	accept(t, agents)
	big := Event{Kind: Started, Sandbox: Sandbox{ID: "a", Annotations: map[string]string{"a": string(make([]byte, 4096))}}}
	for range 2 * queueSize {
		l.Send(big)
	}
	accept(t, agents)
}

func TestEvent(t *testing.T) {
	var b bytes.Buffer
	want := Event{Kind: Creating, Sequence: 7, Path: "/x", First: true, Sandbox: Sandbox{
		ID: "a", Namespace: "shop", Name: "web", UID: "u", HostNetwork: true,
		Annotations: map[string]string{"dnsconfigurer.dev/skip": "true"},
	}}
	must.Succeed(t, Write(&b, want))
	count := 0
	if err := Read(&b, func(e Event) error {
		count++
		if diff := cmp.Diff(want, e); diff != "" {
			t.Errorf("-written +read:\n%s", diff)
		}
		return nil
	}); err != nil || count != 1 {
		t.Errorf("%d events, %v", count, err)
	}
}

// TestEvent_Long: a line beyond the limit is an error on both sides.
func TestEvent_Long(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, Event{Path: strings.Repeat("x", maxLine)}); err == nil || b.Len() != 0 {
		t.Errorf("%v, %d bytes written", err, b.Len())
	}
	line := `{"path":"` + strings.Repeat("x", maxLine) + "\"}\n"
	if err := Read(strings.NewReader(line), func(Event) error { return nil }); err == nil {
		t.Error("no error for a long line")
	}
}

// TestBoundAnnotations: the author of a pod chooses the names of its annotations and their size. The event of such a pod
// fits into a line, and has the annotations that decide its DNS.
func TestBoundAnnotations(t *testing.T) {
	all := map[string]string{"other": "secret"}
	for i := range 1000 {
		for _, prefix := range []string{"dnsconfigurer.dev/", "kubernetes.io/config."} {
			all[fmt.Sprint(prefix, i)] = strings.Repeat("\x01", maxAnnotation)
		}
	}
	for _, name := range annotations {
		all[name] = strings.Repeat("\x01", 1<<18)
	}
	all["dnsconfigurer.dev/policy"] = "None"
	e := Event{Sandbox: Sandbox{Annotations: BoundAnnotations(all)}}
	got := e.Sandbox.Annotations
	if err := Write(io.Discard, e); err != nil || len(got) != len(annotations) || got["dnsconfigurer.dev/policy"] != "None" {
		t.Errorf("%d annotations, %v", len(got), err)
	}
}

// TestEvent_HasExpired: the time that an event takes from one process to another counts.
func TestEvent_HasExpired(t *testing.T) {
	for after, want := range map[time.Duration]bool{time.Hour: false, -time.Second: runtime.GOOS == "linux"} {
		var sent Event
		sent.ExpireAfter(after)
		var line bytes.Buffer
		must.Succeed(t, Write(&line, sent))
		if err := Read(&line, func(e Event) error {
			if got := e.HasExpired(); got != want {
				t.Errorf("after %v: expired %t, want %t", after, got, want)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	if new(Event).HasExpired() {
		t.Error("an event that does not say when it expires has expired")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"kind":"creating","sequence":1,"sandbox":{"id":"a"}}` + "\n")
	f.Add("\n\n{}")
	f.Fuzz(func(_ *testing.T, text string) {
		_ = Read(strings.NewReader(text), func(Event) error { return nil })
		_ = Read(strings.NewReader(text), func(Ack) error { return nil })
	})
}
