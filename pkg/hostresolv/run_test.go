// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// bubble is a Watcher on fake time. Its files are real. The test reports events itself, because
// inotify does not work with fake time.
type bubble struct {
	tree
	*Watcher
	log     logRecorder
	changed func()   // reports an event
	names   []string // the watched names
	watches int      // the number of open sets of watches
	refuse  error    // returned by watch; set before an event
	limit   bool     // with refuse: nothing is watched; set before an event
	onWatch func()   // if not nil, called before watching; set before an event
	cancel  context.CancelFunc
	done    chan error
}

// onFakeTime runs test with a running Watcher that has read resolv.conf with server(1).
func onFakeTime(t *testing.T, test func(t *testing.T, b *bubble)) {
	t.Helper()
	d := newTree(t)
	d.write("resolv.conf", server(1))
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{tree: tree{t, d.dir}, done: make(chan error, 1)}
		w, err := New(Config{Path: b.path("resolv.conf"), Logger: b.log.logger()})
		b.check(err)
		b.Watcher = w
		w.notify = b.watch
		var ctx context.Context
		ctx, b.cancel = context.WithCancel(t.Context())
		go func() { b.done <- w.Run(ctx) }()
		synctest.Wait()
		b.log.take()
		defer b.stop()
		test(t, b)
	})
}

func (b *bubble) watch(names []string, changed func()) (func(), error) {
	if b.onWatch != nil {
		b.onWatch()
	}
	if b.limit {
		return nil, b.refuse
	}
	b.names, b.changed = names, changed
	b.watches++
	return func() { b.watches-- }, b.refuse
}

func (b *bubble) stop() {
	b.cancel()
	if err := <-b.done; err != nil {
		b.t.Errorf("Run: %v", err)
	}
	if b.watches != 0 {
		b.t.Errorf("%d sets of watches are open", b.watches)
	}
}

// event writes resolv.conf and reports an event.
func (b *bubble) event(text string) {
	b.t.Helper()
	b.write("resolv.conf", text)
	b.changed()
}

func (b *bubble) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bubble) expect(what string, wanted func(Snapshot) bool) {
	b.t.Helper()
	if s, _ := b.Current(); !wanted(s) {
		b.t.Errorf("%s: got %+v", what, s)
	}
}

// TestRun_Debounce truncates the file and writes it 20 ms later. There is no snapshot of the
// empty file, and none of a file with the same text.
func TestRun_Debounce(t *testing.T) {
	onFakeTime(t, func(t *testing.T, b *bubble) {
		_, newer := b.Current()
		b.event("")
		b.pass(20 * time.Millisecond)
		b.event(server(2))
		b.pass(DefaultDebounce - 1)
		b.expect("within the debounce", serves(1))
		start := time.Now()
		<-newer
		if took := time.Since(start); took != 1 {
			t.Errorf("readers were notified %v late", took)
		}
		b.expect("the first snapshot after it", serves(2))
		_, newer = b.Current()
		b.event(server(2))
		b.pass(time.Hour)
		select {
		case <-newer:
			t.Error("there is another snapshot")
		default:
		}
	})
}

// TestRun_ConstantChange checks that a file that changes all the time is read once a second.
func TestRun_ConstantChange(t *testing.T) {
	onFakeTime(t, func(t *testing.T, b *bubble) {
		start, snapshots := time.Now(), 0
		_, newer := b.Current()
		for n := range 100 { // 5 s
			b.event(server(n))
			b.pass(50 * time.Millisecond)
			select {
			case <-newer:
				if snapshots++; snapshots == 1 && time.Since(start) > maxDebounces*DefaultDebounce+50*time.Millisecond {
					t.Errorf("the first snapshot came after %v", time.Since(start))
				}
				_, newer = b.Current()
			default:
			}
		}
		if snapshots < 4 || snapshots > 5 {
			t.Errorf("got %d snapshots", snapshots)
		}
		b.pass(DefaultDebounce)
		b.expect("after the last change", serves(99))
	})
}

// TestRun_Poll checks that the poll finds a change without an event, and does not read a file
// during the debounce.
func TestRun_Poll(t *testing.T) {
	onFakeTime(t, func(t *testing.T, b *bubble) {
		b.write("resolv.conf", server(3)) // without an event
		b.pass(DefaultPoll - 1)
		b.expect("before the poll", serves(1))
		b.pass(1)
		b.expect("after the poll", serves(3))
		b.log.take()
		b.pass(DefaultPoll - 50*time.Millisecond)
		b.event("")
		b.pass(50 * time.Millisecond)
		b.expect("at the poll", serves(3))
		b.event(server(2))
		b.pass(DefaultDebounce)
		b.expect("after the debounce", serves(2))
		if lines := b.log.take(); len(lines) != 1 {
			t.Errorf("logged %q", lines)
		}
	})
}

// TestRun_Log checks that a state is logged once.
func TestRun_Log(t *testing.T) {
	onFakeTime(t, func(t *testing.T, b *bubble) {
		expect := func(want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, b.log.take()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		}
		const bad = `level=WARN msg="the host's resolv.conf is unusable" error=`
		b.pass(3 * DefaultPoll)
		expect()
		b.event("nameserver\n")
		b.pass(3 * DefaultPoll)
		expect(bad + `"Encountered error while parsing resolv conf file. Error: nameserver list is empty "`)
		b.event("# again\nnameserver\n")
		b.pass(DefaultPoll)
		expect()
		b.event("")
		b.pass(3 * DefaultPoll)
		expect(bad + `"the file has no nameserver"`)
		if s, _ := b.Current(); time.Since(s.Problem.Since) < 6*DefaultPoll {
			t.Errorf("the problem is since %v", s.Problem.Since)
		}
		b.event(server(1))
		b.pass(DefaultPoll)
		expect(`level=INFO msg="the host's resolv.conf is usable again"`)
		b.event("nameserver 127.0.0.1\n")
		b.pass(3 * DefaultPoll)
		expect(`level=INFO msg="read the host's resolv.conf"`,
			`level=WARN msg="the host's resolv.conf has nameservers on the loopback of the node"`)
	})
}

// TestRun_WatchError checks that the file is polled if it cannot be watched, and that this is
// logged once. At the limit of inotify instances, the watches that exist stay open and report changes.
func TestRun_WatchError(t *testing.T) {
	onFakeTime(t, func(t *testing.T, b *bubble) {
		b.refuse = errors.New("no more watches")
		b.changed()
		b.pass(3 * DefaultPoll)
		want := []string{`level=WARN msg="cannot watch the host's resolv.conf, polling it" error="no more watches"`}
		if diff := cmp.Diff(want, b.log.take()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		b.write("resolv.conf", server(2))
		b.pass(DefaultPoll)
		b.expect("after a poll", serves(2))
		b.refuse, b.limit = syscall.EMFILE, true
		for i := 3; i < 5; i++ {
			b.event(server(i))
			b.pass(DefaultDebounce)
			if b.expect("with the old watches", serves(i)); b.watches != 1 {
				t.Fatalf("%d sets of watches are open", b.watches)
			}
		}
	})
}

// TestRun_PathKeepsChanging changes the path each time it is watched, without an event. The last
// change is found.
func TestRun_PathKeepsChanging(t *testing.T) {
	onFakeTime(t, func(t *testing.T, b *bubble) {
		const moves = 20
		moved := 0
		b.onWatch = func() {
			if moved++; moved <= moves {
				name := filepath.Join("d", string(rune('a'+moved)))
				b.write(name, server(moved))
				b.link(name, "resolv.conf")
			}
		}
		b.changed()
		b.pass(10 * time.Second)
		b.expect("after the last move", serves(moves))
		want := []string{"resolv.conf", "d", "d/" + string(rune('a'+moves))}
		if diff := cmp.Diff(want, b.below(b.names)); diff != "" {
			t.Errorf("watched names (-want +got)\n%s", diff)
		}
		if b.watches != 1 {
			t.Errorf("%d sets of watches are open", b.watches)
		}
	})
}

func TestRun_Twice(t *testing.T) {
	onFakeTime(t, func(t *testing.T, b *bubble) {
		defer func() {
			if recover() == nil {
				t.Error("the second Run did not panic")
			}
		}()
		b.Run(t.Context())
	})
}

// TestReread_Problem checks that a problem is in the snapshot of Reread at once, and published
// after the debounce.
func TestReread_Problem(t *testing.T) {
	onFakeTime(t, func(t *testing.T, b *bubble) {
		b.event("")
		if s := b.Reread(); !keeps(1, "the file has no nameserver")(s) {
			t.Errorf("Reread: got %+v", s)
		}
		b.expect("at once", serves(1))
		b.pass(DefaultDebounce)
		b.expect("after the debounce", keeps(1, "the file has no nameserver"))
		b.event(server(2))
		if s := b.Reread(); !serves(2)(s) {
			t.Errorf("Reread: got %+v", s)
		}
		b.expect("a good file", serves(2))
	})
}
