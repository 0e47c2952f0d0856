// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// variable is the environment variable of a new process. Its value is an offer in JSON.
const variable = "DNSCONFIGURER_HANDOVER"

// firstFile is the descriptor of the first file that is passed, after the standard ones.
const firstFile = 3

// offer describes the files that are passed: the link to this process, the files by their names,
// and the links to the processes that it has replaced.
type offer struct {
	Files    []string        `json:"files"`
	Draining int             `json:"draining"`
	State    json.RawMessage `json:"state"`
}

// maxDraining limits the processes that complete their work. Each has the memory of a shim.
const maxDraining = 16

// reportInterval is the interval at which a replaced process reports its calls.
const reportInterval = time.Second

// A Program describes the successor to start: the program of this process as it is on the disk now,
// with the same arguments.
type Program struct {
	Env   []string            // variables beside those of this process
	Files map[string]*os.File // by name
	State any                 // is passed as JSON

	Draining *Draining     // the processes that this one has replaced
	Timeout  time.Duration // until it is ready
}

// A Successor is a process that replaces this one.
type Successor struct {
	PID  int
	cmd  *exec.Cmd
	link link
}

// Start starts a program and returns when it is ready. If it fails, or is not ready in time, or
// ctx ends, Start ends the process and returns the reason.
func Start(ctx context.Context, p Program) (*Successor, error) {
	if n, _ := p.Draining.Count(); n >= maxDraining {
		return nil, fmt.Errorf("%d previous processes have calls in progress: try again when they have ended", n)
	}
	s, err := p.start()
	if err != nil {
		return nil, fmt.Errorf("starting a new process: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout, fmt.Errorf("not ready within %v", p.Timeout))
	defer cancel()
	if err := s.awaitReady(ctx); err != nil {
		s.Abort()
		return nil, fmt.Errorf("new process %d: %w", s.PID, err)
	}
	return s, nil
}

// start starts the process with a link to this one.
func (p Program) start() (*Successor, error) {
	own, other, err := pair()
	if err != nil {
		return nil, err
	}
	defer other.Close()
	l, err := newLink(own)
	if err != nil {
		return nil, err
	}
	cmd, err := p.run(other)
	if err != nil {
		l.Close()
		return nil, err
	}
	return &Successor{cmd.Process.Pid, cmd, l}, nil
}

// run runs the program. other is its end of the link.
func (p Program) run(other *os.File) (*exec.Cmd, error) {
	// Not os.Executable, which follows links: a link may lead to another version now.
	path, err := exec.LookPath(os.Args[0])
	if err != nil {
		return nil, err
	}
	state, err := json.Marshal(p.State)
	if err != nil {
		return nil, err
	}
	draining, err := p.Draining.files()
	if err != nil {
		return nil, err
	}
	defer closeAll(draining)
	o := offer{Draining: len(draining), State: state}
	cmd := &exec.Cmd{Path: path, Args: os.Args, Stdout: os.Stdout, Stderr: os.Stderr, ExtraFiles: []*os.File{other}}
	for name, f := range p.Files {
		o.Files = append(o.Files, name)
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, draining...)
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd.Env = append(append(os.Environ(), p.Env...), variable+"="+string(text))
	asSibling(cmd)
	return cmd, cmd.Start()
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// awaitReady returns when the process is ready.
func (s *Successor) awaitReady(ctx context.Context) error {
	disarm := context.AfterFunc(ctx, func() { _ = s.link.SetReadDeadline(time.Unix(1, 0)) })
	defer disarm()
	message, err := s.link.receive()
	reason, isRefusal := strings.CutPrefix(message, refused)
	switch {
	case message == ready && disarm(): // otherwise Watch could not receive from the link
		return nil
	case isRefusal:
		return errors.New(reason)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isEnd(err):
		return errors.New("ended before it was ready")
	case err != nil:
		return err
	}
	return fmt.Errorf("unexpected message %q", message)
}

// Abort ends the process.
func (s *Successor) Abort() {
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()         // it is not a child
	s.link.Close()
}

// Confirm makes the process the main one. This one must accept no more work, and call Watch. If
// the process has ended, Watch returns at once.
func (s *Successor) Confirm() {
	_ = s.link.send(confirmed)
	_ = s.cmd.Process.Release()
}

// Watch reports the number of calls in progress to the newest process until ctx ends. It returns
// before that, with the reason, if this process must end.
func (s *Successor) Watch(ctx context.Context, inProgress func() int) error {
	ended := make(chan error, 1)
	go func() { ended <- s.awaitStop() }()
	report := time.NewTicker(reportInterval)
	defer report.Stop()
	for {
		_ = s.link.SetWriteDeadline(time.Now().Add(reportInterval))
		_ = s.link.send(fmt.Sprint(calls, inProgress())) // best effort: a metric
		select {
		case err := <-ended:
			s.link.Close()
			return err
		case <-ctx.Done():
			s.link.Close()
			<-ended
			return nil
		case <-report.C:
		}
	}
}

// awaitStop returns the reason for which this process must end.
func (s *Successor) awaitStop() error {
	for {
		switch message, err := s.link.receive(); {
		case err != nil:
			return errors.New("the new process has ended")
		case message == stop:
			return errors.New("the service stops")
		}
	}
}
