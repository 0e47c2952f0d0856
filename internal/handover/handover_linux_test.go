// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience limits each step, on a busy machine too.
const patience = 2 * time.Minute

// generations is the number of processes of TestStart_Generations after the first one.
const generations = 3

// TestMain is also the new process of the tests, and $MODE says what it does.
func TestMain(m *testing.M) {
	p, err := Receive()
	switch {
	case err == nil && p == nil:
		os.Exit(m.Run())
	case err == nil:
		err = successor(p, os.Getenv("MODE"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "new process:", err)
		os.Exit(3)
	}
}

func successor(p *Predecessor, mode string) error {
	switch mode {
	case "refuse":
		p.Refuse(errors.New("no configuration"))
	case "hang":
		time.Sleep(patience)
	case "talk":
		return p.link.send("hello")
	case "crash":
		return p.Ready(context.Background(), new(Draining))
	case "generations":
		var generation int
		if err := p.State(&generation); err != nil {
			return err
		}
		return generate(p, generation, p.File("out"))
	}
	return errors.New("cannot start")
}

// generate runs one of several generations of processes. Each hands over to the next one. The
// last one stops all when they have reported as many calls as their number.
func generate(p *Predecessor, generation int, out *os.File) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var d Draining
	if err := p.Ready(ctx, &d); err != nil {
		return err
	}
	if fd := p.files["out"].Fd(); generation == 1 && fd != firstFile+1 {
		return fmt.Errorf("the file has the descriptor %d", fd)
	}
	handedOver, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- d.Run(ctx, handedOver, patience) }()
	if generation == generations {
		if err := await(&d, generations, 5+1+2); err != nil {
			return err
		}
		cancel()
		err := <-ended
		processes, calls := d.Count()
		fmt.Fprintf(out, "%d processes with %d calls are left\n", processes, calls)
		return err
	}
	next, err := Start(ctx, Program{State: generation + 1, Files: map[string]*os.File{"out": out}, Draining: &d, Timeout: patience})
	if err != nil {
		return err
	}
	next.Confirm()
	close(handedOver)
	if err := <-ended; err != nil {
		return err
	}
	fmt.Fprintf(out, "%d: %v\n", generation, next.Watch(ctx, func() int { return generation }))
	return nil
}

func await(d *Draining, processes, calls int) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		p, c := d.Count()
		if p == processes && c == calls {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes with %d calls, want %d and %d", p, c, processes, calls)
		}
	}
}

// TestStart_Generations: the newest process knows all that have not ended and their calls, and
// can stop them, although only one of them has started it.
func TestStart_Generations(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := Start(t.Context(), Program{
		Env: []string{"MODE=generations"}, State: 1, Files: map[string]*os.File{"out": w}, Draining: new(Draining), Timeout: patience,
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer reap(s.PID)
	s.Confirm()
	if err := s.Watch(t.Context(), func() int { return 5 }); err == nil || err.Error() != "the service stops" {
		t.Errorf("the first process ends because of %v", err)
	}
	out, err := io.ReadAll(r) // until all processes have ended
	for _, line := range []string{"1: the service stops\n", "2: the service stops\n", "0 processes with 0 calls are left\n"} {
		if strings.Count(string(out), line) != 1 {
			t.Errorf("%v, output without %q:\n%s", err, line, out)
		}
	}
}

func reap(pid int) { _, _ = unix.Wait4(pid, nil, 0, nil) }

// TestStart_Failure: a new process that does not become ready is ended, and the reason is
// returned.
func TestStart_Failure(t *testing.T) {
	for mode, want := range map[string]string{
		"end":    ": ended before it was ready",
		"refuse": ": no configuration",
		"hang":   ": not ready within 100ms",
		"talk":   `: unexpected message "hello"`,
	} {
		t.Run(mode, func(t *testing.T) {
			timeout := patience
			if mode == "hang" {
				timeout = 100 * time.Millisecond
			}
			s, err := Start(t.Context(), Program{Env: []string{"MODE=" + mode}, Draining: new(Draining), Timeout: timeout})
			if err == nil || !strings.HasPrefix(err.Error(), "new process ") || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%v, %v, want %q", s, err, want)
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Millisecond, func() { cancel(errors.New("client gone")) })
		if s, err := Start(ctx, Program{Env: []string{"MODE=hang"}, Draining: new(Draining), Timeout: patience}); err == nil ||
			!strings.HasSuffix(err.Error(), ": client gone") {
			t.Errorf("%v, %v", s, err)
		}
	})
	t.Run("too many", func(t *testing.T) {
		d := &Draining{calls: map[link]int{}}
		for range maxDraining {
			d.calls[newTestLink(t)] = 1
		}
		if s, err := Start(t.Context(), Program{Draining: d}); err == nil ||
			!strings.HasPrefix(err.Error(), "16 previous processes have calls in progress") {
			t.Errorf("%v, %v", s, err)
		}
	})
}

func newTestLink(t *testing.T) link {
	t.Helper()
	own, other, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	l, err := newLink(own)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestStart_ReadyTooLate: a process that is ready when ctx has ended already is not used: its link could
// not be read from any more.
func TestStart_ReadyTooLate(t *testing.T) {
	stopping := errors.New("stopping")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopping)
	for range 100 { // the message and the end of ctx race
		own, other, err := pair()
		if err != nil {
			t.Fatal(err)
		}
		l, err1 := newLink(own)
		successor, err2 := newLink(other)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		err = errors.Join(successor.send(ready), (&Successor{link: l}).awaitReady(ctx))
		l.Close()
		successor.Close()
		if !errors.Is(err, stopping) {
			t.Fatalf("got %v, want %v", err, stopping)
		}
	}
}

// TestWatch_SuccessorEnds: the end of the newest process ends the others, which hold its lock.
func TestWatch_SuccessorEnds(t *testing.T) {
	s, err := Start(t.Context(), Program{Env: []string{"MODE=crash"}, Draining: new(Draining), Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer reap(s.PID)
	s.Confirm()
	if err := s.Watch(t.Context(), func() int { return 1 }); err == nil || err.Error() != "the new process has ended" {
		t.Error(err)
	}
}

// TestWatch_Ends: a process that has completed its work does not wait.
func TestWatch_Ends(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &Successor{link: newTestLink(t)}
	ended := make(chan error)
	go func() { ended <- s.Watch(ctx, func() int { cancel(); return 1 }) }()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestDuplicate_NonBlocking: the socket of a process that has started another one can still be
// closed.
func TestDuplicate_NonBlocking(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Duplicate(l.(*net.TCPListener))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0) // as os/exec does
	if err != nil || flags&unix.O_NONBLOCK == 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
	ended := make(chan error)
	go func() { _, err := l.Accept(); ended <- err }()
	l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestDraining_Timeout: a process that does not end does not keep the newest one from ending.
func TestDraining_Timeout(t *testing.T) {
	var d Draining
	d.add([]link{newTestLink(t)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Run(ctx, nil, time.Millisecond); err != nil {
		t.Error(err)
	}
}
