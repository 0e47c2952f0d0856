// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
)

// startQueryLog runs a writer of a query log to standard output until the test ends, in a bubble of synctest.
func startQueryLog(t *testing.T, stdout io.Writer, log io.Writer) (w *queryLogWriter, stop func()) {
	w = newQueryLogWriter(stdout, false, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(log, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.run(ctx) }()
	return w, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestQueryLog_Slow: lines are written together, and while the target hangs, they wait in bounded memory and are then
// counted as dropped. Neither those who log nor the end of the process wait for the target.
func TestQueryLog_Slow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logbuffer.Buffer
		w, stop := startQueryLog(t, &out, io.Discard)
		w.add([]byte("one\n"))
		w.add([]byte("two\nthree\n"))
		time.Sleep(queryLogDelay - time.Nanosecond)
		synctest.Wait()
		if got := out.String(); got != "" {
			t.Errorf("written too early: %q", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := out.String(); got != "one\ntwo\nthree\n" {
			t.Errorf("got %q", got)
		}
		blocked := make(chan struct{})
		w.mu.Lock()
		w.target = writerFunc(func(b []byte) (int, error) {
			<-blocked
			return out.Write(b)
		})
		w.changed <- struct{}{}
		w.mu.Unlock()
		synctest.Wait()
		waiting := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.lines)
		}
		line := []byte(strings.Repeat("x", 1023) + "\n")
		for range 3 * maxQueryLines / len(line) { // in no time
			w.add(line)
			if waiting() == len(line) {
				synctest.Wait() // the writer takes the first half
			}
		}
		if got := testutil.ToFloat64(w.dropped); got < maxQueryLines/float64(len(line)) || waiting() > maxQueryLines {
			t.Errorf("%v lines are dropped, %d bytes wait", got, waiting())
		}
		start := time.Now()
		stop()
		if took := time.Since(start); took > queryLogTimeout {
			t.Errorf("the end took %v", took)
		}
		close(blocked)
		synctest.Wait()
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestQueryLog_Replaced: while a write to a target hangs, and after that, lines go to the target that has replaced it.
func TestQueryLog_Replaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		blocked := make(chan struct{})
		w, stop := startQueryLog(t, writerFunc(func(b []byte) (int, error) {
			<-blocked
			text.WriteString("old " + string(b))
			return len(b), nil
		}), io.Discard)
		w.add([]byte("one\n"))
		time.Sleep(2 * queryLogDelay)
		w.mu.Lock()
		w.target = writerFunc(func(b []byte) (int, error) {
			text.WriteString("new " + string(b))
			return len(b), nil
		})
		w.mu.Unlock()
		w.changed <- struct{}{}
		time.Sleep(2 * queryLogTimeout)
		w.add([]byte("two\n"))
		close(blocked)
		time.Sleep(2 * queryLogDelay)
		w.add([]byte("three\n"))
		stop()
		synctest.Wait()
		if got, want := text.String(), "old one\nnew two\nnew three\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestQueryLog_Failing: a target that accepts a part of the lines, and then none, loses the rest, which is counted and
// logged once a minute. When it works again, the next line begins on a line of its own.
func TestQueryLog_Failing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log, out strings.Builder
		room := 9
		full := writerFunc(func(b []byte) (int, error) {
			n, _ := out.Write(b[:min(len(b), room)])
			if room -= n; n < len(b) {
				return n, syscall.ENOSPC
			}
			return n, nil
		})
		w, stop := startQueryLog(t, full, &log)
		for _, lines := range []string{"one\ntwo\nthree\nfour\n", "five\n", "six\n"} {
			w.add([]byte(lines))
			time.Sleep(2 * queryLogDelay)
		}
		synctest.Wait()
		room = 100
		w.add([]byte("seven\n"))
		w.add([]byte("eight\n"))
		stop() // writes what waits
		if got, want := out.String(), "one\ntwo\nt\nseven\neight\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := testutil.ToFloat64(w.dropped); got != 4 {
			t.Errorf("%v lines are dropped, want 4", got)
		}
		if n := strings.Count(log.String(), "cannot write the query log"); n != 1 || !strings.Contains(log.String(), "no space left") {
			t.Errorf("%d messages: %s", n, log.String())
		}
	})
}

// TestQueryLog_File: a file is appended to, and opened again after a rotation by rename, copy or removal, and when its
// directory appears. A named pipe that nothing reads is an error.
func TestQueryLog_File(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	path := filepath.Join(dir, "queries")
	f := &logFile{path: path}
	defer f.close()
	write := func(line string) error {
		_, err := f.Write([]byte(line))
		return err
	}
	if err := write("lost\n"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	for _, step := range []struct {
		change func() error
		want   string // of the file after a line is written
	}{
		{func() error { return os.Mkdir(dir, 0o700) }, "line\n"},
		{func() error { return nil }, "line\nline\n"},
		{func() error { return os.Rename(path, path+".1") }, "line\n"},
		{func() error { return os.Truncate(path, 0) }, "line\n"}, // logrotate's copytruncate
		{func() error { return os.Remove(path) }, "line\n"},
		{func() error { return os.WriteFile(path, []byte("old\n"), 0o600) }, "old\nline\n"},
	} {
		if err := errors.Join(step.change(), write("line\n")); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); string(got) != step.want {
			t.Errorf("got %q, want %q: %v", got, step.want, err)
		}
	}
}

// TestQueryLog_Apply: a reload changes the selection and the file. Lines that wait are written to the previous file.
func TestQueryLog_Apply(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	synctest.Test(t, func(t *testing.T) {
		var out logbuffer.Buffer
		w, stop := startQueryLog(t, &out, io.Discard)
		if l := w.apply(queryLog{file: "x", QueryLog: dnsserver.QueryLog{JSON: true}}); l != nil {
			t.Errorf("without classes: %+v", l)
		}
		for _, file := range []string{"", a, b, b, ""} {
			l := w.apply(queryLog{file: file, QueryLog: dnsserver.QueryLog{Classes: dnsserver.LogAll, JSON: true}})
			if l == nil || l.JSON || l.Classes != dnsserver.LogAll {
				t.Fatalf("%+v", l)
			}
			synctest.Wait()
			l.Write([]byte("to " + filepath.Base(file) + "\n"))
		}
		stop()
		text := out.String()
		for _, file := range []string{a, b} {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Error(err)
			}
			text += string(b)
		}
		if want := "to .\nto .\nto a\nto b\nto b\n"; text != want {
			t.Errorf("got %q, want %q", text, want)
		}
	})
}
