// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// Process is a running server.
type Process struct {
	process.Process
	Address string // for queries, UDP and TCP
	Started time.Time
}

// startupTime limits the start of a server.
const startupTime = 3 * time.Minute

// Start runs a command as the server at address until Kill is called, and waits until it is ready.
// Its log is in dir.
func Start(ctx context.Context, dir, address string, ready func() bool, command ...string) (*Process, error) {
	p := &Process{Address: address, Started: time.Now()}
	p.Program, p.Args, p.LogFile = command[0], command[1:], filepath.Join(dir, filepath.Base(command[0])+".log")
	if err := p.Process.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Program, err)
	}
	if err := p.Wait(ctx, ready); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// Answers returns a function that reports whether the server at address sends replies.
func Answers(address string) func() bool {
	return func() bool {
		m, err := ask.One(address, ask.Question{Name: "cluster.local.", Type: dns.TypeSOA})
		return err == nil && m != nil
	}
}

// Wait waits until ready reports true.
func (p *Process) Wait(ctx context.Context, ready func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, startupTime)
	defer cancel()
	for tick := time.Tick(2 * time.Millisecond); !ready(); {
		if err := p.Alive(); err != nil {
			return err
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %s", p.Program, ctx.Err(), p.Log())
		}
	}
	return nil
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
