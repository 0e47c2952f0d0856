// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// hungLog is a log that blocks every write until it is read.
type hungLog struct {
	read    chan struct{} // closed: writes do not block
	written bytes.Buffer
}

func (h *hungLog) Write(p []byte) (int, error) {
	<-h.read
	return h.written.Write(p)
}

func newTestLogWriter(t *testing.T, w io.Writer) (l *logWriter, dropped func() int) {
	registry := prometheus.NewRegistry()
	return newLogWriter(w, slog.NewTextHandler(w, nil), registry), func() int {
		t.Helper()
		families, err := registry.Gather()
		if err != nil || len(families) != 1 || families[0].GetName() != "dnsconfigurer_log_lines_dropped_total" {
			t.Fatalf("metrics %v, %v", families, err)
		}
		return int(families[0].GetMetric()[0].GetCounter().GetValue())
	}
}

// TestLogWriter_Hung writes more lines than wait, to a log that is not read. No write
// blocks. When the log is read, it has the lines and the number of the others.
func TestLogWriter_Hung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &hungLog{read: make(chan struct{})}
		l, dropped := newTestLogWriter(t, log)
		stop := l.start()
		fmt.Fprintln(l, "first")
		synctest.Wait() // it is being written
		began := time.Now()
		for i := range maxLogLines {
			fmt.Fprintln(l, "line", i)
		}
		if n := dropped(); n != 0 {
			t.Errorf("%d lines dropped too early", n)
		}
		for range 3 {
			fmt.Fprintln(l, "too much")
		}
		if n := dropped(); n != 3 || time.Since(began) > 0 {
			t.Errorf("%d lines dropped, want 3; writing took %v", n, time.Since(began))
		}
		close(log.read)
		synctest.Wait()
		text := log.written.String()
		if n := strings.Count(text, "\n"); n != maxLogLines+2 ||
			!strings.Contains(text, `msg="log lines dropped, the log is not read" count=3`) || strings.Contains(text, "too much") {
			t.Errorf("the log has %d lines:\n%.300s", n, text)
		}
		stop()
	})
}

// TestLogWriter_Bytes writes lines of the limit and of one more byte.
func TestLogWriter_Bytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l, dropped := newTestLogWriter(t, &log)
		half := bytes.Repeat([]byte("x"), maxLogBytes/2)
		for _, line := range [][]byte{half, half, []byte("y")} {
			if n, err := l.Write(line); n != len(line) || err != nil {
				t.Errorf("wrote %d of %d bytes, %v", n, len(line), err)
			}
		}
		if n := dropped(); n != 1 {
			t.Errorf("%d lines dropped, want 1", n)
		}
		l.start()()
		if n := bytes.Count(log.Bytes(), []byte("x")); n != maxLogBytes || !strings.Contains(log.String(), "count=1\n") {
			t.Errorf("%d bytes written, want %d", n, maxLogBytes)
		}
	})
}

// TestLogWriter_OncePerMinute drops lines again and again. The log has their number once a
// minute, and the rest at the end.
func TestLogWriter_OncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l, _ := newTestLogWriter(t, &log)
		stop := l.start()
		for range 100 {
			_, _ = l.Write(make([]byte, maxLogBytes+1))
			fmt.Fprintln(l, "short")
			time.Sleep(10 * time.Second)
		}
		stop()
		if n := strings.Count(log.String(), "log lines dropped"); n != 18 || strings.Count(log.String(), "count=6") != 16 {
			t.Errorf("%d lines about dropped ones, want 18: one at once, 16 a minute apart, one at the end:\n%s", n, log.String())
		}
	})
}

// TestLogWriter_Stop ends with lines that wait: they are written, but a log that is not read
// delays the end by a second only.
func TestLogWriter_Stop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &hungLog{read: make(chan struct{})}
		l, dropped := newTestLogWriter(t, log)
		stop := l.start()
		fmt.Fprintln(l, "line")
		began := time.Now()
		stop()
		if took := time.Since(began); took != time.Second {
			t.Errorf("the end took %v, want 1s", took)
		}
		fmt.Fprintln(l, "late")
		if n := dropped(); n != 1 {
			t.Errorf("%d lines dropped, want 1", n)
		}
		close(log.read) // ends the goroutine
	})
}
