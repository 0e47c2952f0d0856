// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

// messages is a log handler that sends the messages to a channel.
type messages struct {
	slog.Handler
	c chan string
}

func (m messages) Handle(_ context.Context, r slog.Record) error {
	m.c <- r.Message
	return nil
}

func newMessages() messages { return messages{slog.DiscardHandler, make(chan string, 100)} }

// Enabled overrides that of the discard handler.
func (m messages) Enabled(context.Context, slog.Level) bool { return true }

func (m messages) expect(t *testing.T, part string) {
	t.Helper()
	select {
	case got := <-m.c:
		if !strings.Contains(got, part) {
			t.Errorf("logged %q, want %q", got, part)
		}
	case <-t.Context().Done():
		t.Errorf("%q was not logged", part)
	}
}

// The host's resolver forwards queries back to the server. The server receives the probe,
// and the client does not use the resolver until the loop is gone.
func TestRun_Loop(t *testing.T) {
	noLeaks(t)
	var loop upstream.LoopDetector
	self := serve(t, func(_ string, query *dns.Msg) [][]byte { // the server that forwards to host
		if loop.DetectProbe(query.Question[0]) {
			return [][]byte{pack(t, reply(query, dns.RcodeRefused))}
		}
		t.Errorf("%v would loop", query.Question)
		return nil
	})
	toSelf := newClient(t, upstream.Config{}, self)
	var fixed atomic.Bool
	host := serve(t, func(_ string, query *dns.Msg) [][]byte {
		if fixed.Load() {
			return [][]byte{good(t, query)}
		}
		m, err := toSelf.Exchange(t.Context(), query)
		if err != nil {
			t.Error(err)
			return nil
		}
		return [][]byte{pack(t, m)}
	})
	other := serve(t, always(t, 0, "192.0.2.2"))

	log := newMessages()
	c := newClient(t, upstream.Config{Loop: &loop, Zone: "corp.example.", Logger: slog.New(log)}, host)
	run(t, c)
	log.expect(t, "forwarding loop: ")
	if got := c.Status(); !got[0].Looping {
		t.Errorf("%+v", got)
	}
	before := host.overUDP.Load()
	if _, err := c.Exchange(t.Context(), ask("www.example.com.")); !errors.Is(err, upstream.ErrLoop) {
		t.Errorf("%v", err)
	}
	if host.overUDP.Load() != before {
		t.Error("the looping server was used")
	}
	c.SetServers([]upstream.Server{host.Server, other.Server})
	expect(t, c, "192.0.2.2") // a looping server does not affect the others

	fixed.Store(true)
	c.SetServers([]upstream.Server{host.Server})
	log.expect(t, "forwarding loop is gone")
	expect(t, c, "192.0.2.1")
}

// Loops are checked again without a change of servers.
func TestRun_LoopRecheck(t *testing.T) {
	var loop upstream.LoopDetector
	var loops atomic.Bool
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		if loops.Load() && !loop.DetectProbe(query.Question[0]) {
			t.Errorf("%v is not detected as a probe", query.Question)
		}
		return [][]byte{pack(t, reply(query, dns.RcodeNameError))}
	})
	log := newMessages()
	c := newClient(t, upstream.Config{Loop: &loop, LoopCheck: short, Logger: slog.New(log)}, s)
	run(t, c)
	for range 3 {
		loops.Store(true)
		log.expect(t, "forwarding loop: ")
		loops.Store(false)
		log.expect(t, "forwarding loop is gone")
	}
}

// A lost probe is sent again after a tenth of LoopCheck, which is longer here than waitFor waits.
func TestRun_LostProbe(t *testing.T) {
	t.Parallel()
	var loop upstream.LoopDetector
	var probes atomic.Int64
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		if query.Question[0].Qtype == dns.TypeHINFO && probes.Add(1) == 1 {
			return nil
		}
		return [][]byte{pack(t, reply(query, dns.RcodeServerFailure))}
	})
	run(t, newClient(t, upstream.Config{Loop: &loop, LoopCheck: 70 * time.Second, TryTimeout: short}, s))
	waitFor(t, "another probe", func() bool { return probes.Load() == 2 })
}

// Only a probe in flight is detected.
func TestDetectProbe_OtherQueries(t *testing.T) {
	var loop upstream.LoopDetector
	seen := make(chan dns.Question, 100)
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		q := query.Question[0]
		q.Name = strings.ToUpper(q.Name) // resolvers may change the case
		other, longer := q, q
		other.Qtype, longer.Name = dns.TypeA, "x."+q.Name
		if loop.DetectProbe(other) || loop.DetectProbe(longer) || !loop.DetectProbe(q) {
			t.Errorf("want a probe: %v; not a probe: %v, %v", q, other, longer)
		}
		seen <- q
		return [][]byte{pack(t, reply(query, dns.RcodeNameError))}
	})
	if loop.DetectProbe(dns.Question{Name: "a.b.", Qtype: dns.TypeHINFO, Qclass: dns.ClassINET}) {
		t.Error("a probe is detected before one is sent")
	}
	log := newMessages()
	c := newClient(t, upstream.Config{Loop: &loop, Logger: slog.New(log)}, s)
	stop := run(t, c)
	probe := <-seen
	log.expect(t, "forwarding loop: ")
	stop()
	if loop.DetectProbe(probe) {
		t.Error("a probe is detected after its end")
	}
	if labels := dns.CountLabel(probe.Name); labels != 2 {
		t.Errorf("%s has %d labels", probe.Name, labels)
	}
}

func TestRun_Twice(t *testing.T) {
	arrived := make(chan struct{}, 10)
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		arrived <- struct{}{}
		return [][]byte{pack(t, reply(query, dns.RcodeNameError))}
	})
	c := newClient(t, upstream.Config{Loop: new(upstream.LoopDetector)}, s)
	stop := run(t, c)
	<-arrived // the probe: Run is running
	defer func() {
		if recover() == nil {
			t.Error("the second Run did not panic")
		}
		stop()
		run(t, c)() // sequential calls are valid
	}()
	c.Run(t.Context())
}

// replica is a server that forwards to an upstream server and detects loops.
type replica struct {
	loop   *upstream.LoopDetector
	client *upstream.Client
}

// answer is what the server of the replica does with a query.
func (r *replica) answer(t *testing.T, query *dns.Msg) *dns.Msg {
	q := query.Question[0]
	if r.loop.DetectProbe(q) {
		return reply(query, dns.RcodeRefused)
	}
	if rr := r.loop.AnswerProbe(q.Name); rr != nil && q.Qtype == dns.TypeHINFO {
		m := reply(query, 0)
		m.Answer = []dns.RR{rr}
		return m
	}
	m, err := r.client.Exchange(t.Context(), query)
	if err != nil {
		return reply(query, dns.RcodeServerFailure)
	}
	return m
}

// startReplicas starts servers whose upstream server sends each query to one of receivers, in
// turn. A nil receiver is the internet.
func startReplicas(t *testing.T, keys []string, receivers func(replicas []*replica) []*replica) []*replica {
	var all []*replica
	var targets atomic.Pointer[[]*replica]
	var next atomic.Int64
	balancer := serve(t, func(_ string, query *dns.Msg) [][]byte {
		list := *targets.Load()
		if r := list[int(next.Add(1))%len(list)]; r != nil {
			return [][]byte{pack(t, r.answer(t, query))}
		}
		return [][]byte{pack(t, reply(query, dns.RcodeNameError))}
	})
	for _, key := range keys {
		r := &replica{loop: &upstream.LoopDetector{}}
		if key != "" {
			r.loop.SetKey(key)
		}
		r.client = newClient(t, upstream.Config{Loop: r.loop, Zone: "Corp.Example."}, balancer)
		all = append(all, r)
	}
	list := receivers(all)
	targets.Store(&list)
	return all
}

// Replicas behind one address see the loop with their first probe, whichever of them the
// address leads to.
func TestRun_LoopThroughReplica(t *testing.T) {
	for _, n := range []int{2, 5} {
		for receiver := range n {
			keys := make([]string, n)
			for i := range keys {
				keys[i] = "cluster.local of cluster 1"
			}
			all := startReplicas(t, keys, func(list []*replica) []*replica { return list[receiver : receiver+1] })
			for i, r := range all {
				stop := run(t, r.client)
				waitFor(t, fmt.Sprintf("replica %d of %d sees the loop through %d", i, n, receiver),
					func() bool { return r.client.Status()[0].Looping })
				stop()
			}
		}
	}
}

// A server with another key does not make a loop: the server of another cluster, a node cache
// and its cluster DNS, and servers without a key.
func TestRun_OtherKeyIsNotALoop(t *testing.T) {
	for _, keys := range [][]string{{"cluster 1", "cluster 2"}, {"", ""}, {"cluster 1", ""}} {
		all := startReplicas(t, keys, func(list []*replica) []*replica { return list[1:] })
		all[1].client.SetServers([]upstream.Server{serve(t, always(t, dns.RcodeNameError)).Server})
		stop := run(t, all[0].client)
		expectAnswered(t, all[0].client)
		stop()
		if all[0].client.Status()[0].Looping {
			t.Errorf("keys %q: the other server is taken for a loop", keys)
		}
	}
}

// expectAnswered sends queries for a while, during which the first probe ends.
func expectAnswered(t *testing.T, c *upstream.Client) {
	t.Helper()
	for i := range 20 {
		if m, err := c.Exchange(t.Context(), ask(fmt.Sprintf("n%d.example.", i))); err != nil || m.Rcode != dns.RcodeNameError {
			t.Errorf("got %v, %v", m, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A key that is known later starts a probe, and so does a query that no server answers.
func TestRun_ProbeEvents(t *testing.T) {
	var probes atomic.Int64
	s := serveStream(t, func(conn net.Conn) { // closes the connection after any other query
		for {
			wire, err := readQuery(conn)
			if err != nil {
				return
			}
			query := parse(t, wire)
			if query.Question[0].Qtype != dns.TypeHINFO {
				return
			}
			probes.Add(1)
			conn.Write(frame(pack(t, reply(query, dns.RcodeNameError))))
		}
	})
	s.TCP = true
	var loop upstream.LoopDetector
	c := newClient(t, upstream.Config{Loop: &loop, LoopCheck: time.Hour}, s)
	run(t, c)
	waitFor(t, "the probe at the start", func() bool { return probes.Load() == 1 })
	loop.SetKey("a key")
	waitFor(t, "the probe after SetKey", func() bool { return probes.Load() == 2 })
	for range 3 { // within LoopCheck/10 of the last probes
		c.Exchange(t.Context(), ask("www.example.com."))
	}
	if n := probes.Load(); n != 2 {
		t.Errorf("%d probes, want none so soon after the last", n)
	}

	probes.Store(0)
	c = newClient(t, upstream.Config{Loop: &loop, LoopCheck: 36 * time.Second}, s)
	run(t, c)
	waitFor(t, "the probe at the start", func() bool { return probes.Load() == 1 })
	waitFor(t, "the probe after a failure", func() bool {
		c.Exchange(t.Context(), ask("www.example.com."))
		return probes.Load() >= 2
	})
}

// Only a name with the proof of the key is answered, in any case and below any zone.
func TestLoopDetector_AnswerProbe(t *testing.T) {
	var first, second, other upstream.LoopDetector
	first.SetKey("a")
	second.SetKey("a")
	other.SetKey("b")
	names := make(chan string, 10)
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		names <- query.Question[0].Name
		return [][]byte{pack(t, reply(query, dns.RcodeNameError))}
	})
	for _, zone := range []string{"", "corp.example."} {
		run(t, newClient(t, upstream.Config{Loop: &first, Zone: zone}, s))
		name := <-names
		rr := second.AnswerProbe(strings.ToUpper(name))
		if rr == nil || rr.Header().Ttl != 0 || rr.Header().Name != strings.ToUpper(name) {
			t.Errorf("%s: got %v", name, rr)
		}
		for _, wrong := range []string{name[1:], "x." + name, name + "x.", strings.Repeat("0", 32) + "." + name[33:], "", ".", "a.b."} {
			if wrong != name && second.AnswerProbe(wrong) != nil {
				t.Errorf("%q is answered", wrong)
			}
		}
		if other.AnswerProbe(name) != nil {
			t.Error("a server with another key answers")
		}
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timeout: %s", what)
		}
	}
}
