// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/world"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
)

const (
	changeRate  = 1000 // changes a second
	changeTime  = 10 * time.Second
	busyObjects = 200 // Services
	busySize    = 10  // endpoints of each
	busyClients = 4

	// maxResident limits the peak of the resident memory, in kB. It was 35 MB when this
	// was written; changes must not accumulate.
	maxResident = 64 << 10
)

// TestChangeRate makes a thousand changes of endpoints a second while clients query them.
// The API server is simulated: a real one and its store reached 320 changes on two
// processors and left no time for others. The delay of changes is logged, not checked.
func TestChangeRate(t *testing.T) {
	api := kubeapi.New()
	put := func(_ context.Context, w *world.World) error { api.Apply(w.Slices[0]); return nil }
	registers := make([]*register, busyObjects)
	for i := range registers {
		registers[i] = newHeadless(nil, fmt.Sprintf("db%d", i), busySize)
		registers[i].put = put
		_, w := registers[i].next()
		api.Apply(w.Objects()...)
	}
	url, err := api.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Stop)
	s := newServer(t, build(t), kubeapi.Kubeconfig(url))
	s.start(t)
	eventually(t, "ready", s.ready)

	asking, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer func() { stop(); clients.Wait() }()
	for n := range busyClients {
		clients.Go(func() { askAround(asking, t, s.address, registers[1:], n) })
	}
	var late []time.Duration
	clients.Go(func() { late = probe(asking, t, s.address, registers[0]) })
	changeAll(t, registers[1:])
	stop()
	clients.Wait()
	queries := catchUp(t, s.address, registers)
	slices.Sort(late)
	t.Logf("%d questions; from the change to the answer, of %d: median %v, p99 %v", queries,
		len(late), late[len(late)/2], late[len(late)*99/100])
	resident := residentPeak(t, s.PID())
	t.Logf("%d kB were resident at most", resident)
	if resident > maxResident {
		t.Errorf("%d kB were resident, the limit is %d", resident, maxResident)
	}
}

// changeAll changes the objects at the rate, in turn.
func changeAll(t *testing.T, registers []*register) {
	t.Helper()
	start, n := time.Now(), 0
	for tick := time.Tick(time.Millisecond); time.Since(start) < changeTime; <-tick {
		for due := int(time.Since(start).Seconds() * changeRate); n < due; n++ {
			r := registers[n%len(registers)]
			state, w := r.next()
			_ = r.put(t.Context(), w) // the simulated API server accepts all
			r.accepted(state)
		}
	}
	t.Logf("%d changes in %v", n, time.Since(start).Round(time.Millisecond))
}

// probe changes an object and queries it until the reply has the change, repeatedly until
// ctx ends. It returns the delays.
func probe(ctx context.Context, t *testing.T, server string, r *register) (late []time.Duration) {
	c, err := ask.Dial(server)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer c.Close()
	for tick := time.Tick(20 * time.Millisecond); ctx.Err() == nil; <-tick {
		state, w := r.next()
		sent := time.Now()
		_ = r.put(ctx, w)
		r.accepted(state)
		for r.settled(0) != nil && time.Since(sent) < patience {
			r.ask(c, 0)
		}
		late = append(late, time.Since(sent))
	}
	return late
}

// catchUp waits until all objects are served in their last state, fails the test for
// wrong replies, and returns their number.
func catchUp(t *testing.T, server string, registers []*register) (queries int) {
	t.Helper()
	c, err := ask.Dial(server)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, r := range registers {
		for i := range r.questions {
			eventually(t, "the last state", func() error { r.ask(c, i); return r.settled(i) })
		}
		queries += r.count
		for _, w := range r.wrong {
			t.Errorf("%s: %s", r.name, w)
		}
	}
	return queries
}

// askAround queries one object after the other until ctx ends.
func askAround(ctx context.Context, t *testing.T, server string, registers []*register, n int) {
	c, err := ask.Dial(server)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	for ; ctx.Err() == nil; n += busyClients {
		r := registers[n%len(registers)]
		r.ask(c, n%len(r.questions))
	}
}

// residentPeak returns the peak of the resident memory of a process, in kB
// (proc_pid_status(5)).
func residentPeak(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	line, _, _ := strings.Cut(after, "\n")
	kB, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(line, "kB")))
	if err != nil {
		t.Fatal(err)
	}
	return kB
}
