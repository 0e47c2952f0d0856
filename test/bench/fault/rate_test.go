// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/world"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
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
// processors and left no time for others.
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
	url := must.Get(api.Start())(t)
	t.Cleanup(api.Stop)
	s := startReady(t, kubeapi.Kubeconfig(url))

	asking, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer func() { stop(); clients.Wait() }()
	for n := range busyClients {
		clients.Go(func() { askAround(asking, t, s.address, registers, n) })
	}
	changeAll(t, registers)
	stop()
	clients.Wait()
	catchUp(t, s.address, registers)
	if resident := s.memory(t, "VmHWM"); resident > maxResident {
		t.Errorf("%d kB are resident, the limit is %d", resident, maxResident)
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

// catchUp waits until all objects are served in their last state, and fails the test for
// wrong replies.
func catchUp(t *testing.T, server string, registers []*register) {
	t.Helper()
	c := must.Get(ask.Dial(server))(t)
	defer c.Close()
	for _, r := range registers {
		for i := range r.questions {
			poll.UntilNil(t, "the last state", func() error { r.ask(c, i); return r.settled(i) })
		}
		for _, w := range r.wrong {
			t.Errorf("%s: %s", r.name, w)
		}
	}
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
