// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
)

// TestReader_ReadErrors: errors of single packets cost no pause. A socket that fails again and
// again is read ten times a second, and logged once a minute.
func TestReader_ReadErrors(t *testing.T) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	synctest.Test(t, func(t *testing.T) {
		var log logbuffer.Buffer
		r := &reader{server: newServer(t, "loaded", Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}), conn: conn}
		begin := time.Now()
		expect := func(pauses, messages int) {
			t.Helper()
			if took := time.Since(begin); took != time.Duration(pauses)*readErrorPause {
				t.Errorf("after %d errors: paused for %v, want %d pauses", r.errors, took, pauses)
			}
			if n := strings.Count(log.String(), "cannot read UDP socket"); n != messages {
				t.Errorf("after %d errors: %d messages, want %d", r.errors, n, messages)
			}
		}
		fail := func(n int) {
			for range n {
				r.readFailed(syscall.ENOMEM)
			}
		}
		fail(maxPacketErrors)
		expect(0, 0)
		fail(1)
		expect(1, 1)
		fail(599)
		expect(600, 1)
		fail(1)
		expect(601, 2)
	})
}
