// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// tree is a directory of a test.
type tree struct {
	t   *testing.T
	dir string
}

func newTree(t *testing.T) tree {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return tree{t, dir}
}

func (d tree) path(name string) string { return filepath.Join(d.dir, name) }

func (d tree) check(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// write truncates a file and writes it, and makes its directory if need be.
func (d tree) write(name, text string) {
	d.t.Helper()
	d.check(os.MkdirAll(filepath.Dir(d.path(name)), 0o755))
	d.check(os.WriteFile(d.path(name), []byte(text), 0o644))
}

// replace writes a file beside name and renames it over it.
func (d tree) replace(name, text string) {
	d.t.Helper()
	d.write(name+".new", text)
	d.rename(name+".new", name)
}

// link puts a link in the place of name, by rename.
func (d tree) link(target, name string) {
	d.t.Helper()
	d.check(os.MkdirAll(filepath.Dir(d.path(name)), 0o755))
	d.check(os.Symlink(target, d.path(name)+".new"))
	d.rename(name+".new", name)
}

func (d tree) rename(from, to string) {
	d.t.Helper()
	d.check(os.Rename(d.path(from), d.path(to)))
}

func (d tree) remove(name string) {
	d.t.Helper()
	d.check(os.RemoveAll(d.path(name)))
}

// server is a resolv.conf with one nameserver, which is how tests tell files apart.
func server(n int) string { return fmt.Sprintf("nameserver 10.0.0.%d\n", n) }

// serves tells whether s has the file server(n) and no problem.
func serves(n int) func(Snapshot) bool {
	return func(s Snapshot) bool { return s.Problem.Err == nil && s.File.Config().String() == server(n) }
}

// keeps tells whether s has the file server(n) but not because it is there.
func keeps(n int, problem string) func(Snapshot) bool {
	return func(s Snapshot) bool {
		return s.File.Config().String() == server(n) && strings.Contains(text(s.Problem.Err), problem)
	}
}

// watched is a Watcher that runs until its test is done.
type watched struct {
	*Watcher
	t      *testing.T
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
}

// watch runs a Watcher on the real file system and returns when its first watches
// are in place. Only events can tell it of a change: the poll is too slow.
func watch(t *testing.T, cfg Config) *watched {
	t.Helper()
	if cfg.Poll == 0 {
		cfg.Poll = time.Hour
	}
	if cfg.Debounce == 0 {
		cfg.Debounce = 10 * time.Millisecond
	}
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	armed := make(chan struct{})
	once := sync.OnceFunc(func() { close(armed) })
	w.notify = func(names []string, changed func()) (func(), error) {
		defer once()
		return notify(names, changed)
	}
	r := &watched{Watcher: w, t: t, done: make(chan struct{})}
	r.ctx, r.cancel = context.WithTimeout(t.Context(), 20*time.Second)
	go func() {
		defer close(r.done)
		if err := w.Run(r.ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	t.Cleanup(r.stop)
	<-armed
	return r
}

func (r *watched) stop() {
	r.cancel()
	<-r.done
}

// until waits for a snapshot.
func (r *watched) until(what string, wanted func(Snapshot) bool) Snapshot {
	r.t.Helper()
	for {
		s, newer := r.Current()
		if wanted(s) {
			return s
		}
		select {
		case <-newer:
		case <-r.ctx.Done():
			r.t.Fatalf("%s: it did not come to this, but to\n%+v", what, s)
		}
	}
}

// logged collects what a Watcher logs, a line each: level, message, error.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case slog.LevelKey, slog.MessageKey, "error":
				return a
			default:
				return slog.Attr{}
			}
		},
	}))
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}

// take returns the lines since the last call.
func (l *logged) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}
