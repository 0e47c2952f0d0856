// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// TestRun_Changes changes a resolv.conf in many ways, on a real file system.
// Each case starts with server(1) in etc/resolv.conf unless it has a prepare function, and
// each step waits for its snapshot.
func TestRun_Changes(t *testing.T) {
	type step struct {
		name string
		do   func(tree)
		want func(Snapshot) bool
	}
	write := func(n int) step {
		return step{"write", func(d tree) { d.write("etc/resolv.conf", server(n)) }, serves(n)}
	}
	overwrite := func(d tree, name, text string) {
		f, err := os.OpenFile(d.path(name), os.O_WRONLY, 0)
		d.check(err)
		defer f.Close()
		_, err = f.WriteAt([]byte(text), 0)
		d.check(err)
	}
	for _, test := range []struct {
		name    string
		prepare func(tree)
		steps   []step
	}{
		{"rename over", nil, []step{
			{"once", func(d tree) { d.replace("etc/resolv.conf", server(2)) }, serves(2)},
			{"again", func(d tree) { d.replace("etc/resolv.conf", server(3)) }, serves(3)},
			write(4),
		}},
		{"truncate and write", nil, []step{write(2), write(3)}},
		{"write in place", nil, []step{
			{"once", func(d tree) { overwrite(d, "etc/resolv.conf", server(2)) }, serves(2)},
			{"again", func(d tree) { overwrite(d, "etc/resolv.conf", server(3)) }, serves(3)},
		}},
		{"rename away and back", nil, []step{
			{"away", func(d tree) { d.rename("etc/resolv.conf", "etc/x") }, keeps(1, "no such file")},
			{"back", func(d tree) { d.rename("etc/x", "etc/resolv.conf") }, serves(1)},
			write(2),
		}},
		{"rename away and remove at once", nil, []step{
			{"remove", func(d tree) { d.rename("etc/resolv.conf", "etc/x"); d.remove("etc/x") }, keeps(1, "no such file")},
			write(2),
		}},
		{"chain of links", func(d tree) {
			d.write("run/b/file", server(1))
			d.link("../run/b/file", "run/middle")
			d.link(d.path("run/middle"), "etc/resolv.conf")
		}, []step{
			{"dangling", func(d tree) { d.remove("run/b/file") }, keeps(1, "no such file")},
			{"middle link swapped", func(d tree) { d.write("c/file", server(2)); d.link("../c/file", "run/middle") }, serves(2)},
			{"file behind it written", func(d tree) { d.write("c/file", server(3)) }, serves(3)},
			{"link to a directory on the way", func(d tree) {
				d.write("e/file", server(4))
				d.link("../e", "run/dir")
				d.link("dir/file", "run/middle")
			}, serves(4)},
			{"that link swapped", func(d tree) { d.write("f/file", server(5)); d.link("../f", "run/dir") }, serves(5)},
			{"first link replaced by a file", func(d tree) { d.replace("etc/resolv.conf", server(6)) }, serves(6)},
		}},
		{"mounted ConfigMap", func(d tree) {
			d.write("etc/..1/resolv.conf", server(1))
			d.link("..1", "etc/..data")
			d.link("..data/resolv.conf", "etc/resolv.conf")
		}, []step{
			{"swap", func(d tree) {
				d.write("etc/..2/resolv.conf", server(2))
				d.link("..2", "etc/..data")
				d.remove("etc/..1")
			}, serves(2)},
			{"swap again", func(d tree) {
				d.write("etc/..3/resolv.conf", server(3))
				d.link("..3", "etc/..data")
				d.remove("etc/..2")
			}, serves(3)},
		}},
		{"delete and create", nil, []step{
			{"delete", func(d tree) { d.remove("etc/resolv.conf") }, keeps(1, "no such file")},
			write(2),
		}},
		{"delete and create the directories", func(d tree) {
			d.write("run/a/b/resolv.conf", server(1))
			d.link("../run/a/b/resolv.conf", "etc/resolv.conf")
		}, []step{
			{"delete", func(d tree) { d.remove("run/a") }, keeps(1, "no such file")},
			{"create", func(d tree) { d.write("run/a/b/resolv.conf", server(2)) }, serves(2)},
			{"both at once", func(d tree) { d.remove("run/a"); d.write("run/a/b/resolv.conf", server(3)) }, serves(3)},
			{"rename", func(d tree) { d.rename("run/a/b", "run/a/c"); d.write("run/a/b/resolv.conf", server(4)) }, serves(4)},
			{"rename far above", func(d tree) { d.rename("run", "away"); d.write("run/a/b/resolv.conf", server(5)) }, serves(5)},
			{"many at once", func(d tree) {
				for n := range 50 {
					d.remove("run")
					d.write("run/a/b/resolv.conf", server(100+n))
				}
			}, serves(149)},
		}},
		{"loop of links", nil, []step{
			{"loop", func(d tree) { d.link("x", "etc/resolv.conf"); d.link("resolv.conf", "etc/x") },
				keeps(1, "too many levels of symbolic links")},
			{"broken", func(d tree) { d.replace("etc/x", server(2)) }, serves(2)},
		}},
		{"directory instead of the file", nil, []step{
			{"mkdir", func(d tree) { d.remove("etc/resolv.conf"); d.check(os.Mkdir(d.path("etc/resolv.conf"), 0o755)) },
				keeps(1, "is a directory")},
			{"rmdir", func(d tree) { d.remove("etc/resolv.conf"); d.write("etc/resolv.conf", server(2)) }, serves(2)},
		}},
		{"file instead of the directory", nil, []step{
			{"file", func(d tree) { d.remove("etc"); d.write("etc", "") }, keeps(1, "not a directory")},
			{"directory", func(d tree) { d.remove("etc"); d.write("etc/resolv.conf", server(2)) }, serves(2)},
		}},
		{"unusable file", nil, []step{
			{"empty", func(d tree) { d.write("etc/resolv.conf", "") }, keeps(1, "the file has no nameserver")},
			{"bare keyword", func(d tree) { d.write("etc/resolv.conf", server(2)+"nameserver\n") }, keeps(1, "nameserver list is empty")},
			{"10 MiB", func(d tree) {
				d.replace("etc/resolv.conf", server(2)+strings.Repeat("#\n", resolvconf.MaxFile/2))
			}, keeps(1, "the read limit is reached")},
			{"no nameserver", func(d tree) { d.write("etc/resolv.conf", "search example.org\n") }, keeps(1, "the file has no nameserver")},
			write(2),
		}},
		{"missing from the start", func(d tree) {}, []step{
			{"directory", func(d tree) { d.check(os.Mkdir(d.path("etc"), 0o755)) },
				func(s Snapshot) bool { return os.IsNotExist(s.File.Err) }},
			write(2),
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newTree(t)
			if test.prepare == nil {
				d.write("etc/resolv.conf", server(1))
			} else {
				test.prepare(d)
			}
			w := watch(t, Config{Path: d.path("etc/resolv.conf")})
			for _, step := range test.steps {
				step.do(d)
				w.until(step.name, step.want)
			}
		})
	}
}

// TestReread_WithoutRun checks that Reread alone finds every change.
func TestReread_WithoutRun(t *testing.T) {
	d := newTree(t)
	d.write("resolv.conf", server(1))
	long := time.Now().Add(-time.Hour)
	d.check(os.Chtimes(d.path("resolv.conf"), long, long))
	w, err := New(Config{Path: d.path("resolv.conf")})
	d.check(err)
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
