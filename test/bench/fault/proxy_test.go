// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// proxy forwards connections until it stalls: then it keeps them, accepts new ones, and
// forwards no bytes, like a router that drops packets.
type proxy struct {
	address, target string

	mu      sync.Mutex
	flowing chan struct{} // closed: bytes pass
	running sync.WaitGroup
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &proxy{address: l.Addr().String(), target: target, flowing: make(chan struct{})}
	close(p.flowing)
	ctx, cancel := context.WithCancel(context.Background())
	p.running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.pass(ctx, client) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		p.running.Wait()
	})
	return p
}

// stall holds all bytes until flow is called.
func (p *proxy) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flowing = make(chan struct{})
}

func (p *proxy) flow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.flowing)
}

// open waits until bytes are forwarded.
func (p *proxy) open(ctx context.Context) error {
	p.mu.Lock()
	flowing := p.flowing
	p.mu.Unlock()
	select {
	case <-flowing:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *proxy) pass(ctx context.Context, client net.Conn) {
	defer client.Close()
	if p.open(ctx) != nil {
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	stop := context.AfterFunc(ctx, func() { _ = client.Close(); _ = server.Close() })
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { p.copy(ctx, server, client) })
	both.Go(func() { p.copy(ctx, client, server) })
	both.Wait()
}

// copy forwards bytes and the end of from.
func (p *proxy) copy(ctx context.Context, to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if p.open(ctx) != nil {
			return
		}
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			_, _ = io.Copy(io.Discard, from)
			return
		}
	}
}
