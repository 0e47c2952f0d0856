// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// TestRun_Changes changes a resolv.conf as programs do, on a real file system. Each step waits for its
// snapshot. TestReading_Unchanged has all that stat(2) reports of a change, and TestReread_Steps the files that are
// not used.
func TestRun_Changes(t *testing.T) {
	d := newTree(t)
	d.write("run/..1/file", server(1))
	d.link("..1", "run/..data")
	d.link("..data/file", "run/middle")
	d.link(d.path("run/middle"), "etc/resolv.conf")
	w := watch(t, Config{Path: d.path("etc/resolv.conf")})
	for _, step := range []struct {
		name string
		do   func()
		want func(Snapshot) bool
	}{
		{"the link to a directory is swapped, as in a ConfigMap", func() {
			d.write("run/..2/file", server(2))
			d.link("..2", "run/..data")
			d.remove("run/..1")
		}, serves(2)},
		{"the file behind the links is written", func() { d.write("run/..2/file", server(3)) }, serves(3)},
		{"the links lead nowhere", func() { d.rename("run", "away") }, keeps(3, "no such file")},
		{"the first link is replaced by a file", func() { d.replace("etc/resolv.conf", server(4)) }, serves(4)},
		{"a loop of links", func() { d.link("x", "etc/resolv.conf"); d.link("resolv.conf", "etc/x") },
			keeps(4, "too many levels of symbolic links")},
		{"a directory", func() { d.remove("etc/resolv.conf"); d.check(os.Mkdir(d.path("etc/resolv.conf"), 0o755)) },
			keeps(4, "is a directory")},
		{"a file instead of its directory", func() { d.remove("etc"); d.write("etc", "") }, keeps(4, "not a directory")},
		{"directory and file", func() { d.remove("etc"); d.write("etc/resolv.conf", server(5)) }, serves(5)},
		{"10 MiB", func() { d.replace("etc/resolv.conf", server(6)+strings.Repeat("#\n", resolvconf.MaxFile/2)) },
			keeps(5, "the read limit is reached")},
		{"many changes at once", func() {
			for n := range 50 {
				d.remove("etc")
				d.write("etc/resolv.conf", server(100+n))
			}
		}, serves(149)},
	} {
		step.do()
		w.until(step.name, step.want)
	}
}

// TestReread_WithoutRun checks that Reread alone finds every change.
func TestReread_WithoutRun(t *testing.T) {
	d := newTree(t)
	d.write("resolv.conf", server(1))
	long := time.Now().Add(-time.Hour)
	d.check(os.Chtimes(d.path("resolv.conf"), long, long))
	w := New(Config{Path: d.path("resolv.conf")})
	first := w.current.Load()
	if w.Reread(); w.current.Load() != first {
		t.Error("an unchanged file is read again")
	}
	for n := 2; n < 50; n++ { // in place and of one size: the stat may be the same
		d.write("resolv.conf", server(10+n))
		if s := w.Reread(); !serves(10 + n)(s) {
			t.Fatalf("write %d: got %+v", n, s)
		}
	}
	later := time.Now().Add(time.Hour) // does not get old during a pause of the machine
	for n := 100; n < 110; n++ {       // as on a file system with a coarse modification time
		d.write("resolv.conf", server(n))
		d.check(os.Chtimes(d.path("resolv.conf"), later, later))
		if s := w.Reread(); !serves(n)(s) {
			t.Fatalf("write %d at the same time: got %+v", n, s)
		}
	}
	d.remove("resolv.conf")
	if s := w.Reread(); !keeps(109, "no such file")(s) {
		t.Errorf("removed: got %+v", s)
	}
	d.write("other", server(2))
	d.link("other", "resolv.conf")
	if s := w.Reread(); !serves(2)(s) {
		t.Errorf("link: got %+v", s)
	}
}

// TestReading_Unchanged checks each difference that may be the only one.
func TestReading_Unchanged(t *testing.T) {
	long := time.Now().Add(-time.Hour)
	set := func(d tree, name, text string, at time.Time) {
		d.write(name, text)
		d.check(os.Chtimes(d.path(name), at, at))
	}
	for name, change := range map[string]func(tree){
		"size":    func(d tree) { set(d, "file", "12", long) },
		"time":    func(d tree) { set(d, "file", "1", long.Add(1)) },
		"inode":   func(d tree) { set(d, "other", "1", long); d.rename("other", "file") },
		"mode":    func(d tree) { d.check(os.Chmod(d.path("file"), 0o600)) },
		"removed": func(d tree) { d.remove("file") },
	} {
		d := newTree(t)
		set(d, "file", "1", long)
		r := readFile(d.path("file"))
		before := r.unchanged()
		if change(d); !before || r.unchanged() {
			t.Errorf("%s: unchanged before %v, after %v", name, before, r.unchanged())
		}
	}
}

// TestWatcher_Concurrent checks that concurrent readers get complete files.
func TestWatcher_Concurrent(t *testing.T) {
	d := newTree(t)
	d.write("resolv.conf", server(0))
	w := watch(t, Config{Path: d.path("resolv.conf")})
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				s, _ := w.Current()
				if r := w.Reread(); len(s.File.Nameservers) != 1 || len(r.File.Nameservers) != 1 {
					t.Errorf("Current: got %+v, Reread: %+v", s, r)
				}
			}
		})
	}
	for n := range 200 {
		d.write("resolv.conf", server(n))
	}
	w.until("the last write", serves(199))
	close(stop)
	readers.Wait()
	if s := w.Reread(); !serves(199)(s) {
		t.Errorf("after the last write: got %+v", s)
	}
}

// onFakeTime runs test with a running Watcher that has read resolv.conf with server(1). The time is
// fake, the file is real.
func onFakeTime(t *testing.T, test func(d tree, w *runningWatcher)) {
	t.Helper()
	dir := newTree(t).dir
	synctest.Test(t, func(t *testing.T) {
		d := tree{t, dir}
		d.write("resolv.conf", server(1))
		test(d, watch(t, Config{Path: d.path("resolv.conf"), Poll: DefaultPoll}))
	})
}

// pass waits until after n polls.
func pass(n time.Duration) {
	time.Sleep(n * DefaultPoll)
	synctest.Wait()
}

// TestRun_HalfWritten truncates the file and writes it after the next poll. There is no snapshot of
// the empty file, and none of a file with the same text.
func TestRun_HalfWritten(t *testing.T) {
	onFakeTime(t, func(d tree, w *runningWatcher) {
		_, newer := w.Current()
		d.write("resolv.conf", "")
		pass(1)
		d.write("resolv.conf", server(2))
		pass(1)
		w.expect("after one poll", serves(1))
		d.write("resolv.conf", server(3))
		pass(1)
		w.expect("after one poll of another text", serves(1))
		<-newer
		w.expect("the first snapshot", serves(3))
		_, newer = w.Current()
		d.replace("resolv.conf", server(3))
		pass(10)
		select {
		case <-newer:
			t.Error("there is another snapshot")
		default:
		}
	})
}

// TestRun_ConstantChange checks that a file that changes all the time is published at every tenth poll.
func TestRun_ConstantChange(t *testing.T) {
	onFakeTime(t, func(d tree, w *runningWatcher) {
		for n := range 25 {
			d.write("resolv.conf", server(2+n))
			pass(1)
			w.expect("after a change", serves(1+n/10*10+map[bool]int{true: 10}[n%10 == 9]))
		}
		pass(1)
		w.expect("after the last change", serves(26))
	})
}

// TestRun_Log checks that a state is logged once.
func TestRun_Log(t *testing.T) {
	onFakeTime(t, func(d tree, w *runningWatcher) {
		w.log.take()
		expect := func(polls time.Duration, text string, want ...string) {
			t.Helper()
			d.write("resolv.conf", text)
			pass(polls)
			if diff := cmp.Diff(want, w.log.take()); diff != "" {
				t.Errorf("%q (-want +got)\n%s", text, diff)
			}
		}
		const bad = `level=WARN msg="the host's resolv.conf is unusable" error=`
		expect(3, server(1))
		expect(4, "nameserver\n", bad+`"Encountered error while parsing resolv conf file. Error: nameserver list is empty "`)
		expect(4, "# again\nnameserver\n")
		expect(4, "", bad+`"the file has no nameserver"`)
		expect(2, server(1), `level=INFO msg="the host's resolv.conf is usable again"`)
		expect(4, "nameserver 127.0.0.1\n", `level=INFO msg="read the host's resolv.conf"`,
			`level=WARN msg="the host's resolv.conf has nameservers on the loopback of the node"`)
	})
}

// TestReread_Problem checks that a problem is in the snapshot of Reread at once, and published
// after two polls.
func TestReread_Problem(t *testing.T) {
	onFakeTime(t, func(d tree, w *runningWatcher) {
		d.write("resolv.conf", "")
		if s := w.Reread(); !keeps(1, "the file has no nameserver")(s) {
			t.Errorf("Reread: got %+v", s)
		}
		pass(1)
		w.expect("after one poll", serves(1))
		pass(1)
		w.expect("after two polls", keeps(1, "the file has no nameserver"))
		d.write("resolv.conf", server(2))
		if s := w.Reread(); !serves(2)(s) {
			t.Errorf("Reread: got %+v", s)
		}
		w.expect("a good file", serves(2))
	})
}
