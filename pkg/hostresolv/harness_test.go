// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// tree is the directory of a test.
type tree struct {
	t   *testing.T
	dir string
}

func newTree(t *testing.T) tree {
	t.Helper()
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	return tree{t, dir}
}

func (d tree) path(name string) string { return filepath.Join(d.dir, name) }

func (d tree) check(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// write truncates and writes a file, and creates its directory if necessary.
func (d tree) write(name, text string) {
	d.t.Helper()
	d.check(os.MkdirAll(filepath.Dir(d.path(name)), 0o755))
	d.check(os.WriteFile(d.path(name), []byte(text), 0o644))
}

// replace writes another file and renames it to name.
func (d tree) replace(name, text string) {
	d.t.Helper()
	d.write(name+".new", text)
	d.rename(name+".new", name)
}

// link replaces name by a link to target, by rename.
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

// server returns a resolv.conf with one nameserver, which identifies the file.
func server(n int) string { return fmt.Sprintf("nameserver 10.0.0.%d\n", n) }

// serves returns a function that reports whether a snapshot has the file server(n) and no
// problem.
func serves(n int) func(Snapshot) bool {
	return func(s Snapshot) bool { return s.Problem == nil && s.File.Config().String() == server(n) }
}

// keeps returns a function that reports whether a snapshot still has the file server(n), with
// this problem.
func keeps(n int, problem string) func(Snapshot) bool {
	return func(s Snapshot) bool {
		return s.File.Config().String() == server(n) && strings.Contains(errorText(s.Problem), problem)
	}
}

// runningWatcher is a Watcher that runs until the test ends.
type runningWatcher struct {
	*Watcher
	t   *testing.T
	log *logRecorder
	ctx context.Context
}

// watch runs a Watcher. By default it polls every 5 ms.
func watch(t *testing.T, cfg Config) *runningWatcher {
	t.Helper()
	r := &runningWatcher{t: t, log: &logRecorder{}}
	cfg.Poll, cfg.Logger = cmp.Or(cfg.Poll, 5*time.Millisecond), r.log.logger()
	r.Watcher = New(cfg)
	var cancel context.CancelFunc
	r.ctx, cancel = context.WithTimeout(t.Context(), 2*time.Minute)
	done := make(chan error)
	go func() { done <- r.Run(r.ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r
}

func (r *runningWatcher) expect(what string, wanted func(Snapshot) bool) {
	r.t.Helper()
	if s, _ := r.Current(); !wanted(s) {
		r.t.Errorf("%s: got %+v", what, s)
	}
}

// until waits for a snapshot for which wanted reports true.
func (r *runningWatcher) until(what string, wanted func(Snapshot) bool) Snapshot {
	r.t.Helper()
	for {
		s, newer := r.Current()
		if wanted(s) {
			return s
		}
		select {
		case <-newer:
		case <-r.ctx.Done():
			r.t.Fatalf("%s: timeout, the snapshot is\n%+v", what, s)
		}
	}
}

// logRecorder records the lines that a Watcher logs, with level, message and error.
type logRecorder struct {
	mu    sync.Mutex
	lines []string
}

func (l *logRecorder) logger() *slog.Logger {
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

func (l *logRecorder) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}

// take returns the lines since the last call.
func (l *logRecorder) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}
