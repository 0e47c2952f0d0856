// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// enough is how many admissions the restarts have to happen under, at least.
const enough = 500

// restarts gives two replicas behind a balancer new certificates and restarts them one after
// the other: no object bypasses the webhook. When both have stopped, pods are still created.
func (w *webhookTest) restarts(t *testing.T) {
	replicas := make([]*replica, 2)
	for i := range replicas {
		dir := t.TempDir()
		cert, key := w.issue(t, dir)
		replicas[i] = newReplica(t, w, dir, cert, key)
	}
	defer w.balance(t, replicas)()
	for _, r := range replicas {
		r.start(t)
	}
	before := w.failedOpen(t)
	load := w.load(t)
	for i, r := range replicas {
		load.reach(t, int64(1+i)*enough/3)
		for _, r := range replicas {
			w.issue(t, r.dir)
		}
		load.restart(t, r)
	}
	load.reach(t, enough)
	load.stop()
	if after := w.failedOpen(t); after != before {
		t.Errorf("apiserver_admission_webhook_fail_open_count went from %v to %v", before, after)
	}
	t.Logf("%d admissions", load.admissions.Load())

	for _, r := range replicas {
		r.process.Kill()
	}
	if s, err := w.create(t.Context(), []byte(tooLong), false); err != nil || s.refused != "" {
		t.Errorf("without a webhook: %q, %v", s.refused, err)
	}
	if w.failedOpen(t) == before {
		t.Error("the API server does not count what passed unseen") // or we read the wrong metric
	}
}

// load are objects that are created, and all refused, two at a time.
type load struct {
	admissions atomic.Int64
	stop       func()
}

func (w *webhookTest) load(t *testing.T) *load {
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{}
	var creating sync.WaitGroup
	for range 2 {
		creating.Go(func() {
			for ctx.Err() == nil {
				s, err := w.create(context.WithoutCancel(ctx), []byte(tooLong), true)
				if err != nil || !strings.HasPrefix(s.refused, deniedBy) {
					t.Errorf("after %d admissions: %q, %v", l.admissions.Load(), s.refused, err)
					return
				}
				l.admissions.Add(1)
			}
		})
	}
	l.stop = sync.OnceFunc(func() {
		cancel()
		creating.Wait()
	})
	t.Cleanup(l.stop)
	return l
}

// reach waits until so many have been refused.
func (l *load) reach(t *testing.T, n int64) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("admission %d", n), func() bool { return l.admissions.Load() >= n || t.Failed() })
}

// restart restarts a replica, and has the other one asked in between.
func (l *load) restart(t *testing.T, r *replica) {
	t.Helper()
	r.process.Stop()
	l.reach(t, l.admissions.Load()+20)
	r.start(t)
}

var failOpen = regexp.MustCompile(`(?m)^apiserver_admission_webhook_fail_open_count\{.*\} (\d+)$`)

// failedOpen returns how many objects the API server has let pass without an answer.
func (w *webhookTest) failedOpen(t *testing.T) string {
	t.Helper()
	text := must.Get(w.api.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context()))(t)
	var counts []string
	for _, m := range failOpen.FindAllSubmatch(text, -1) {
		counts = append(counts, string(m[0]))
	}
	return strings.Join(counts, "\n")
}

// replica is the command as a process.
type replica struct {
	dir, addr, health string
	process           *process.Process
}

func newReplica(t *testing.T, w *webhookTest, dir, cert, key string) *replica {
	t.Helper()
	addrs := process.Loopback(t, 2)
	r := &replica{dir: dir, addr: addrs[0], health: addrs[1]}
	config := filepath.Join(dir, "webhook.yaml")
	text := fmt.Sprintf("apiVersion: dnsconfigurer.dev/v1alpha1\nkind: WebhookConfiguration\nnode: {clusterDomain: cluster.local}\n"+
		"tls: {certFile: %q, keyFile: %q}\nlameduck: 500ms\n", cert, key)
	must.Succeed(t, os.WriteFile(config, []byte(text), 0o600))
	r.process = &process.Process{Program: w.binary, LogFile: filepath.Join(r.dir, "log"),
		Args: []string{"webhook", "--listen", r.addr, "--http", r.health, "--config", config}}
	t.Cleanup(func() {
		r.process.Kill()
		if t.Failed() {
			t.Log(r.process.Log())
		}
	})
	return r
}

func (r *replica) start(t *testing.T) {
	t.Helper()
	must.Succeed(t, r.process.Start())
	poll.Until(t, "a replica", r.ready)
}

func (r *replica) ready() bool {
	response, err := http.Get("http://" + r.health + "/readyz")
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// balancer works like a Service: a connection goes to a ready replica and stays there.
type balancer struct {
	replicas []*replica
}

// balance has connections to the address balanced until stop is called.
func (w *webhookTest) balance(t *testing.T, replicas []*replica) (stop func()) {
	t.Helper()
	l := must.Get(net.Listen("tcp", w.addr))(t)
	go (&balancer{replicas}).serve(l)
	return func() { l.Close() }
}

func (b *balancer) serve(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		go b.connect(client)
	}
}

func (b *balancer) connect(client net.Conn) {
	defer client.Close()
	for _, r := range b.replicas {
		if !r.ready() {
			continue
		}
		server, err := net.Dial("tcp", r.addr)
		if err != nil {
			continue
		}
		defer server.Close()
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(client, server)
		return
	}
}
