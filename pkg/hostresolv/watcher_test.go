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
