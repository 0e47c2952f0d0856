// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Process is a server that can be started and ended any number of times. Its methods
// are for one goroutine.
type Process struct {
	Program string // path
	Args    []string
	LogFile string // path; what it writes is appended

	cmd   *exec.Cmd     // nil: it does not run
	ended chan struct{} // closed when cmd has ended
	err   error         // how; read when it has
}

// Start starts the server. It is not ready then.
func (p *Process) Start() error {
	if p.cmd != nil {
		return fmt.Errorf("%s runs already", p.Program)
	}
	log, err := os.OpenFile(p.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.Program, p.Args...)
	cmd.Stdout, cmd.Stderr = log, log
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.ended = cmd, make(chan struct{})
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return nil
}

// Kill ends the server without giving it time for anything.
func (p *Process) Kill() { _ = p.end(syscall.SIGKILL) }

// Stop asks the server to end, and waits until it has. The error is about an end that is
// not a good one.
func (p *Process) Stop() error { return p.end(syscall.SIGTERM) }

func (p *Process) end(s syscall.Signal) error {
	if p.cmd == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(s) // it may have ended by itself
	<-p.ended
	p.cmd = nil
	return p.err
}

// PID returns the number of the process, 0 if it does not run.
func (p *Process) PID() int {
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Alive says why the server does not run.
func (p *Process) Alive() error {
	if p.cmd == nil {
		return errors.New(p.Program + " was not started")
	}
	select {
	case <-p.ended:
		return fmt.Errorf("%s has ended: %s\n%s", p.Program, p.cmd.ProcessState, p.Log())
	default:
		return nil
	}
}

// logTail is how much of a log a person wants to see, in bytes.
const logTail = 6 << 10

// Log returns the last lines that the server has written.
func (p *Process) Log() string {
	f, err := os.Open(p.LogFile)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	_, _ = f.Seek(-logTail, io.SeekEnd) // a shorter file is read from its beginning
	text, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return strings.ToValidUTF8(string(text), "")
}
