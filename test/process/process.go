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

// Process is a server that can be started and stopped any number of times. Its methods
// are for one goroutine.
type Process struct {
	Program string // path
	Args    []string
	LogFile string // path; the output is appended

	cmd   *exec.Cmd     // nil: not running
	ended chan struct{} // closed when cmd has ended
	err   error         // of the process; valid when it has ended
}

// Start starts the server. It does not wait until the server is ready.
func (p *Process) Start() error {
	if p.cmd != nil {
		return fmt.Errorf("%s is running already", p.Program)
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

// Kill ends the server at once.
func (p *Process) Kill() { _ = p.end(syscall.SIGKILL) }

// Stop terminates the server and waits for its end. The error is the one of an
// unsuccessful exit.
func (p *Process) Stop() error { return p.end(syscall.SIGTERM) }

func (p *Process) end(s syscall.Signal) error {
	if p.cmd == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(s) // the process may have ended
	<-p.ended
	p.cmd = nil
	return p.err
}

// PID returns the ID of the process, 0 if it is not running.
func (p *Process) PID() int {
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Alive returns an error if the server is not running.
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

// logTail is the size of the end of a log that is shown, in bytes.
const logTail = 6 << 10

// Log returns the end of the server's output.
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
