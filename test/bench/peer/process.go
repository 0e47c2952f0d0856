// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Process is a server that runs.
type Process struct {
	Address string // where it answers queries, UDP and TCP
	Started time.Time

	name  string
	cmd   *exec.Cmd
	log   *tail
	ended chan struct{}
}

// startupTime is how long a server may take until it is ready.
const startupTime = 3 * time.Minute

// start runs a server. It ends with Stop.
func start(name string, cmd *exec.Cmd, address string) (*Process, error) {
	p := &Process{Address: address, Started: time.Now(), name: name, cmd: cmd, log: new(tail), ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait()
	}()
	return p, nil
}

// PID returns the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop ends the process.
func (p *Process) Stop() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// Log returns the last that the process has written.
func (p *Process) Log() string { return p.log.String() }

// Wait waits until ready says that the process is.
func (p *Process) Wait(ctx context.Context, ready func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, startupTime)
	defer cancel()
	for tick := time.Tick(2 * time.Millisecond); !ready(); {
		select {
		case <-tick:
		case <-p.ended:
			return fmt.Errorf("%s has ended: %s", p.name, p.Log())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %s", p.name, ctx.Err(), p.Log())
		}
	}
	return nil
}

// answers200 tells whether there is a good answer at url.
func answers200(url string) bool {
	client := http.Client{Timeout: time.Second}
	r, err := client.Get(url)
	if err != nil {
		return false
	}
	_ = r.Body.Close()
	return r.StatusCode == http.StatusOK
}

// freePort returns an address of the loopback interface that nobody has, over UDP or
// over TCP. A server takes it a moment later, CoreDNS seconds later. The port is below those
// that the kernel gives to clients (ip_local_port_range), one of which could be first.
func freePort() (string, error) {
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000))
		u, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		t, err := net.Listen("tcp", address)
		_ = u.Close()
		if err == nil {
			_ = t.Close()
			return address, nil
		}
	}
	return "", fmt.Errorf("no port is free for both UDP and TCP")
}

// Build compiles a command of the module in dir, without cgo as it is released.
func Build(ctx context.Context, dir, pkg, output string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", output, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// tail keeps the end of what is written.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if extra := len(t.text) - tailSize; extra > 0 {
		t.text = bytes.Clone(t.text[extra:])
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
