// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/world"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// TestRelist makes a server list a cluster of 50,000 Services and 500,000 endpoints again, as after a restart of
// the API server, while clients query it. No query is lost, and the objects are not in memory twice: 1.4 times as much
// is resident as before. It was 1.9 times as much when a list did not share equal objects with the zone, and 1.5 times
// when the heap doubled between two collections. The API server is simulated: a real one would take minutes to store
// the objects.
func TestRelist(t *testing.T) {
	large := world.Large(50_000, 500_000, 0)
	api := kubeapi.New()
	api.Apply(large.Objects()...)
	url := must.Get(api.Start())(t)
	t.Cleanup(api.Stop)
	s := newServer(t, kubeapi.Kubeconfig(url))
	s.start(t)
	poll.UntilNil(t, "ready", s.ready)
	s.collectGarbage(t, 2) // before, the memory is that of a server that has done nothing but start
	steady := s.memory(t, "VmHWM")

	asking, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer func() { stop(); clients.Wait() }()
	for n := range 4 {
		clients.Go(func() { askServices(asking, t, s.address, large, n) })
	}
	for round := range 2 {
		api.Forget()
		mark := newHeadless(nil, fmt.Sprintf("db%d", round), 1) // no watch is open, so only a list has it
		_, w := mark.next()
		api.Apply(w.Objects()...)
		poll.UntilNil(t, "a complete list", func() error { return s.has(w, mark.questions[0]) })
	}
	s.collectGarbage(t, 1)
	peak := s.memory(t, "VmHWM")
	t.Logf("resident: %d kB before, %d kB at most", steady, peak)
	if peak > steady*15/10 {
		t.Errorf("%d kB are resident, want at most 1.5 times %d kB", peak, steady)
	}
}

// collectGarbage reads metrics, which makes garbage, until the server has collected it n times.
func (s *server) collectGarbage(t *testing.T, n float64) {
	t.Helper()
	const collections = "go_gc_duration_seconds_count"
	for first := s.metric(t, collections, ""); s.metric(t, collections, "") < first+n; {
	}
}

// memory returns a field of proc_pid_status(5), in kB.
func (s *server) memory(t *testing.T, field string) int {
	t.Helper()
	return must.Get(s.Memory(field))(t)
}

// askServices queries one Service after the other until ctx ends.
func askServices(ctx context.Context, t *testing.T, server string, w *world.World, n int) {
	c, err := ask.Dial(server)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	for ; ctx.Err() == nil; n += 7 {
		o := w.Services[n%len(w.Services)]
		q := ask.Question{Name: strings.Join([]string{o.Name, o.Namespace, "svc.cluster.local."}, "."), Type: dns.TypeA}
		if m, err := c.Ask(q); err != nil || len(m.Answer) != 1 {
			t.Errorf("%v: %v %v", q, m, err)
			return
		}
		time.Sleep(time.Millisecond)
	}
}
