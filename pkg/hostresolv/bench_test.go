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

// BenchmarkCurrent is the price of a snapshot.
func BenchmarkCurrent(b *testing.B) {
	w := newBenchmark(b)
	for b.Loop() {
		w.Current()
	}
}

// BenchmarkRefresh is the price for each sandbox, when the file is as it was.
func BenchmarkRefresh(b *testing.B) {
	w := newBenchmark(b)
	for b.Loop() {
		w.Refresh()
	}
}

// BenchmarkRead is the price of a change, without that of the watches.
func BenchmarkRead(b *testing.B) {
	w := newBenchmark(b)
	for b.Loop() {
		w.read()
	}
}

// BenchmarkWatch is the price of a new set of watches.
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
