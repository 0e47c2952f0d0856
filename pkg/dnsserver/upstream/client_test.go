// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

// answering returns a function that starts a server with one reply to all queries.
func answering(rcode int, addresses ...string) func(testing.TB) *fake {
	return func(t testing.TB) *fake { return serve(t, always(t, rcode, addresses...)) }
}

// Which of several servers determines the reply. The time of a synctest bubble stands still while a
// socket is read, so none of them counts as silent because the machine is busy.
func TestExchange_NextServer(t *testing.T) {
	noLeaks(t)
	a, b := answering(0, "192.0.2.1"), answering(0, "192.0.2.2")
	failing, refusing := answering(dns.RcodeServerFailure), answering(dns.RcodeRefused)
	tests := []struct {
		name    string
		servers []func(testing.TB) *fake
		want    string
	}{
		{"first server replies", []func(testing.TB) *fake{a, b}, "192.0.2.1"},
		{"first port closed", []func(testing.TB) *fake{closedPort, b}, "192.0.2.2"},
		{"first SERVFAIL", []func(testing.TB) *fake{failing, b}, "192.0.2.2"},
		{"first REFUSED", []func(testing.TB) *fake{refusing, b}, "192.0.2.2"},
		{"first NOTIMP", []func(testing.TB) *fake{answering(dns.RcodeNotImplemented), b}, "192.0.2.2"},
		{"NXDOMAIN is conclusive", []func(testing.TB) *fake{answering(dns.RcodeNameError), b}, "NXDOMAIN"},
		{"NODATA is conclusive", []func(testing.TB) *fake{answering(0), b}, "NOERROR"},
		{"all inconclusive: the first", []func(testing.TB) *fake{failing, refusing}, "SERVFAIL"},
		{"port closed", []func(testing.TB) *fake{closedPort}, "connection refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var servers []*fake
				for _, f := range tt.servers {
					servers = append(servers, f(t))
				}
				expect(t, newClient(t, upstream.Config{}, servers...), tt.want)
			})
		})
	}
}

// A server that answers other queries is not down because search lists time out. It is if
// all queries are lost, or if plain queries are.
func TestExchange_SlowSearchLists(t *testing.T) {
	const code, rounds, try = 65313, 2, 2 * time.Second
	for _, tt := range []struct {
		name         string
		plain, lists bool // are answered
		want         bool // Down
	}{
		{"lists unanswered", true, false, false},
		{"all unanswered", false, false, true},
		{"plain queries unanswered", false, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(_ string, query *dns.Msg) [][]byte {
				if list := len(query.IsEdns0().Option) > 0; list && !tt.lists || !list && !tt.plain {
					return nil
				}
				return [][]byte{good(t, query)}
			})
			c := newClient(t, upstream.Config{Options: []uint16{code}, TryTimeout: try}, s)
			var lists, plain sync.WaitGroup
			for i := range 2 {
				query := ask(fmt.Sprintf("l%d.example.com.", i))
				query.SetEdns0(1232, false).IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_LOCAL{Code: code, Data: []byte("a.example")}}
				lists.Go(func() { _, _ = c.Exchange(t.Context(), query) })
			}
			for i := range 2 * rounds { // some just before the lists time out
				plain.Go(func() { _, _ = c.Exchange(t.Context(), ask(fmt.Sprintf("n%d.example.com.", i))) })
				time.Sleep(try / 2)
			}
			lists.Wait()
			plain.Wait()
			if got := c.Status()[0].Down; got != tt.want {
				t.Errorf("down: %t", got)
			}
		})
	}
}

// TestSetServers_ReplacesList runs in a bubble, where the first server is never too slow.
func TestSetServers_ReplacesList(t *testing.T) { synctest.Test(t, testReplacedList) }

func testReplacedList(t *testing.T) {
	a, b := serve(t, always(t, 0, "192.0.2.1")), serve(t, always(t, 0, "192.0.2.2"))
	c := newClient(t, upstream.Config{})
	if _, err := c.Exchange(t.Context(), ask("www.example.com.")); !errors.Is(err, upstream.ErrNoServers) {
		t.Errorf("without servers: %v", err)
	}
	c.SetServers([]upstream.Server{a.Server, a.Server})
	expect(t, c, "192.0.2.1")
	c.SetServers([]upstream.Server{b.Server, a.Server})
	expect(t, c, "192.0.2.2")
	if got := c.Status(); len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

// Equal queries share a flight. If the caller that sent the query leaves, the others get a reply with
// their own ID and question. TestGroup_Leave counts the queries.
func TestExchange_SharedFlight(t *testing.T) {
	noLeaks(t)
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		arrived <- struct{}{}
		<-release
		return [][]byte{good(t, query)}
	})
	c := newClient(t, upstream.Config{}, s)
	first, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := c.Exchange(first, ask("www.example.com."))
		left <- err
	}()
	<-arrived
	var all sync.WaitGroup
	for _, name := range []string{"www.example.com.", "WWW.example.com.", "www.EXAMPLE.com."} {
		all.Go(func() {
			query := ask(name)
			m, err := c.Exchange(t.Context(), query)
			if err != nil || m.Question[0].Name != name || m.Id != query.Id || len(m.Answer) != 1 {
				t.Errorf("%s: %v, %v", name, err, m)
			}
		})
	}
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("canceled caller: %v", err)
	}
	close(release)
	all.Wait()
}

// Queries with different replies do not share a flight.
func TestExchange_SeparateFlights(t *testing.T) {
	changes := []func(*dns.Msg){
		func(*dns.Msg) {},
		func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA },
		func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS },
		func(m *dns.Msg) { m.CheckingDisabled = true },
		func(m *dns.Msg) { m.RecursionDesired = false },
		func(m *dns.Msg) { m.SetEdns0(1232, true) },
	}
	var all sync.WaitGroup
	allArrived := make(chan struct{})
	var n atomic.Int64
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		if n.Add(1) == int64(len(changes)) {
			close(allArrived)
		}
		return nil
	})
	c := newClient(t, upstream.Config{TryTimeout: 10 * time.Second, Timeout: 10 * time.Second}, s)
	ctx, cancel := context.WithCancel(t.Context())
	for _, change := range changes {
		query := ask("www.example.com.")
		change(query)
		all.Go(func() { c.Exchange(ctx, query) })
	}
	<-allArrived
	cancel()
	all.Wait()
}

func TestExchange_InvalidQuery(t *testing.T) {
	c := newClient(t, upstream.Config{})
	if _, err := c.Exchange(t.Context(), new(dns.Msg)); err == nil {
		t.Error("query without question accepted")
	}
	if _, err := c.Exchange(t.Context(), ask("a..b.")); err == nil {
		t.Error("name with an empty label accepted")
	}
}

// panicHandler panics on warnings while armed.
type panicHandler struct {
	slog.Handler
	armed atomic.Bool
}

func (*panicHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *panicHandler) Handle(_ context.Context, r slog.Record) error {
	if h.armed.Load() && r.Level == slog.LevelWarn {
		panic("a bug")
	}
	return nil
}

// A panic is an error of the query that caused it.
func TestExchange_Panic(t *testing.T) {
	noLeaks(t)
	log := &panicHandler{Handler: slog.DiscardHandler}
	log.armed.Store(true)
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		if log.armed.Load() {
			return nil
		}
		return [][]byte{good(t, query)}
	})
	c := newClient(t, upstream.Config{TryTimeout: upstream.DefaultTryTimeout, Logger: slog.New(log)}, s)
	expect(t, c, "panic in upstream exchange: a bug")
	log.armed.Store(false)
	expect(t, c, "192.0.2.1")
}
