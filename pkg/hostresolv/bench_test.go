// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"os"
	"testing"
	"time"
)

func newBenchmark(b *testing.B) *Watcher {
	path := b.TempDir() + "/resolv.conf"
	if err := os.WriteFile(path, []byte("search example.org\noptions edns0\n"+server(1)), 0o644); err != nil {
		b.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, long, long); err != nil {
		b.Fatal(err)
	}
	w, err := New(Config{Path: path})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	return w
}

// BenchmarkCurrent measures getting a snapshot.
func BenchmarkCurrent(b *testing.B) {
	w := newBenchmark(b)
	for b.Loop() {
		w.Current()
	}
}

// BenchmarkReread measures Reread with an unchanged file, which the shim calls for each
// sandbox.
func BenchmarkReread(b *testing.B) {
	w := newBenchmark(b)
	for b.Loop() {
		w.Reread()
	}
}

// BenchmarkRead measures reading a changed file, without the watches.
func BenchmarkRead(b *testing.B) {
	w := newBenchmark(b)
	for b.Loop() {
		w.readFiles()
	}
}

// BenchmarkWatch measures creating a set of watches.
func BenchmarkWatch(b *testing.B) {
	w := newBenchmark(b)
	for b.Loop() {
		stop, err := notify(w.current.Load().names, func() {})
		if err != nil {
			b.Fatal(err)
		}
		stop()
	}
}
