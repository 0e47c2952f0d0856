// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// TestRandomSignals interrupts the readers, which wait in raw system calls, while each Service is found: by the
// signals of the runtime (SIGURG) and of profilers (SIGPROF), by stops as of debuggers and freezers, and by
// garbage collections all the time, because the memory is above GOMEMLIMIT.
func TestRandomSignals(t *testing.T) {
	s := startSoak(t, dnstest.Reply(known), "1MiB")
	ctx, stop := context.WithCancel(t.Context())
	var storm sync.WaitGroup
	signals := 0
	storm.Go(func() {
		for ; ctx.Err() == nil; signals++ {
			switch n := rand.IntN(100); {
			case n < 2:
				s.signal(t, syscall.SIGSTOP)
				time.Sleep(rand.N(300 * time.Millisecond))
				s.signal(t, syscall.SIGCONT)
			case n < 30:
				s.signal(t, syscall.SIGPROF)
			default:
				s.signal(t, syscall.SIGURG)
			}
			time.Sleep(rand.N(10 * time.Millisecond))
		}
	})
	next := func() *lookup {
		if rand.IntN(4) == 0 {
			return lookupOf(randomLabel() + ".example.") // allocates
		}
		return serviceLookup(rand.IntN(services))
	}
	r := run(t, load{from: loadAddr, rate: soakRate / 2, tcpRate: 20, next: next}, s, *soak/4, 1)
	stop()
	storm.Wait()
	for _, k := range []kind{ofCluster, overTCP} {
		if r.right[k] != r.sent[k] {
			t.Errorf("%d of %d lookups of kind %d are right", r.right[k], r.sent[k], k)
		}
	}
	metrics := process.Metrics(s.http)
	t.Logf("%d lookups, %d signals, %v collections", sum(r.sent), signals, metrics["go_gc_duration_seconds_count"])
	if limit := metrics["go_gc_gomemlimit_bytes"]; limit != 1<<20 {
		t.Errorf("GOMEMLIMIT is %v octets", limit)
	}
	s.settle(t)
}

// signal sends a signal to the server.
func (s *server) signal(t *testing.T, signal syscall.Signal) {
	if err := syscall.Kill(s.PID(), signal); err != nil {
		t.Errorf("%v: %v", signal, err)
	}
}
