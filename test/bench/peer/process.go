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
	"runtime"
	"strconv"
	"sync"
	"time"
)

// Process is a running server.
type Process struct {
	Address string // for queries, UDP and TCP
	Started time.Time

	name  string
	cmd   *exec.Cmd
	log   *tail
	ended chan struct{}
}

// startupTime limits the start of a server.
const startupTime = 3 * time.Minute

// start runs a server until Stop is called.
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

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop ends the process.
func (p *Process) Stop() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// Log returns the end of the output.
func (p *Process) Log() string { return p.log.String() }

// Wait waits until ready reports true.
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

// answers200 reports whether url is served with status 200.
func answers200(url string) bool {
	client := http.Client{Timeout: time.Second}
	r, err := client.Get(url)
	if err != nil {
		return false
	}
	_ = r.Body.Close()
	return r.StatusCode == http.StatusOK
}

// freePort returns a free address of the loopback interface, for UDP and TCP. A server
// binds it later, CoreDNS seconds later: the port is below those that the kernel assigns
// to clients (ip_local_port_range), and on Linux the host is a random one, which other
// tests do not use.
func freePort() (string, error) {
	for range 100 {
		host := "127.0.0.1"
		if runtime.GOOS == "linux" { // where all of 127.0.0.0/8 is the loopback interface
			host = net.IPv4(127, byte(1+rand.IntN(254)), byte(rand.IntN(256)), byte(1+rand.IntN(254))).String()
		}
		address := net.JoinHostPort(host, strconv.Itoa(10_000+rand.IntN(20_000)))
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

// Build compiles a command of the module in dir without cgo, as releases are.
func Build(ctx context.Context, dir, pkg, output string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", output, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// tail keeps the end of what is written to it.
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
