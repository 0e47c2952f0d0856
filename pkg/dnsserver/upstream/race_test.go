// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// behaviour is how a server of a raceTest replies.
type behaviour struct {
	delay time.Duration
	rcode int
	err   error // instead of a reply
}

const never = time.Hour

// raceTest has servers with scripted behaviour, in fake time.
type raceTest struct {
	client *Client
	list   []*server

	mu    sync.Mutex
	plan  map[*server]behaviour
	tries []string // the server of each try, with the milliseconds since the start
	begin time.Time
}

func newRaceTest(plans ...behaviour) *raceTest {
	r := &raceTest{client: newOrderClient(Sequential), plan: map[*server]behaviour{}, begin: time.Now()}
	for i, p := range plans {
		s := makeServers(fmt.Sprint(i + 1))[0]
		r.list = append(r.list, s)
		r.plan[s] = p
	}
	return r
}

// try is Client.try with scripted servers.
func (r *raceTest) try(ctx context.Context, s *server) (*dns.Msg, error) {
	r.mu.Lock()
	p := r.plan[s]
	r.tries = append(r.tries, fmt.Sprintf("%s@%d", names([]*server{s}), time.Since(r.begin).Milliseconds()))
	r.mu.Unlock()
	timeout := time.NewTimer(min(p.delay, DefaultTryTimeout))
	defer timeout.Stop()
	select {
	case <-timeout.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch {
	case p.err != nil:
		return nil, p.err
	case p.delay > DefaultTryTimeout:
		s.recordFailure(time.Now(), context.DeadlineExceeded)
		return nil, context.DeadlineExceeded
	}
	s.recordReply(time.Now())
	m := new(dns.Msg)
	m.Rcode, m.Id = p.rcode, uint16(s.Addr.Addr().As4()[3])
	return m, nil
}

// query sends a query and returns the server and rcode of the reply, or the error, and the
// milliseconds it took.
func (r *raceTest) query(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), DefaultTimeout)
	defer cancel()
	begin := time.Now()
	race := &race{try: r.try, markSilent: func(s *server) { s.silent.Store(true) }}
	m, err := race.run(ctx, r.client.order(r.list))
	took := time.Since(begin).Milliseconds()
	if err != nil {
		return fmt.Sprintf("%v after %d", err, took)
	}
	return fmt.Sprintf("%s of %d after %d", dns.RcodeToString[m.Rcode], m.Id, took)
}

// TestRace checks which servers a query is sent to, and when.
func TestRace(t *testing.T) {
	good, silent := behaviour{delay: time.Millisecond}, behaviour{delay: never}
	refused := behaviour{delay: time.Millisecond, err: errors.New("connection refused")}
	servfail := behaviour{delay: time.Millisecond, rcode: dns.RcodeServerFailure}
	slow, slower := behaviour{delay: 300 * time.Millisecond}, behaviour{delay: 600 * time.Millisecond}
	malformed := behaviour{delay: time.Millisecond, err: ErrMalformed}
	for _, tt := range []struct {
		name    string
		servers []behaviour
		want    string
		tries   string
	}{
		{"good", []behaviour{good, good}, "NOERROR of 1 after 1", "1@0"},
		{"silent, good", []behaviour{silent, good}, "NOERROR of 2 after 201", "1@0 2@200"},
		{"silent, silent, good", []behaviour{silent, silent, good}, "NOERROR of 3 after 401", "1@0 2@200 3@400"},
		{"slow, slow, good: the first is canceled", []behaviour{slower, slower, good}, "NOERROR of 3 after 401", "1@0 2@200 3@400"},
		{"slower, silent, silent", []behaviour{slower, silent, silent}, "NOERROR of 1 after 3000", "1@0 2@200 3@400 1@2400 2@2600"},
		{"refused, good", []behaviour{refused, good}, "NOERROR of 2 after 2", "1@0 2@1"},
		{"slow alone", []behaviour{slow}, "NOERROR of 1 after 300", "1@0"},
		{"slow, silent", []behaviour{slow, silent}, "NOERROR of 1 after 300", "1@0 2@200"},
		{"slow, good", []behaviour{slow, good}, "NOERROR of 2 after 201", "1@0 2@200"},
		{"SERVFAIL, good", []behaviour{servfail, good}, "NOERROR of 2 after 2", "1@0 2@1"},
		{"SERVFAIL, SERVFAIL", []behaviour{servfail, servfail}, "SERVFAIL of 1 after 2", "1@0 2@1"},
		{"slow, SERVFAIL", []behaviour{slow, servfail}, "NOERROR of 1 after 300", "1@0 2@200"},
		{"silent, SERVFAIL", []behaviour{silent, servfail}, "SERVFAIL of 2 after 2000", "1@0 2@200"},
		{"silent, SERVFAIL, good", []behaviour{silent, servfail, good}, "NOERROR of 3 after 202", "1@0 2@200 3@201"},
		{"malformed, good", []behaviour{malformed, good}, "192.0.2.1:53: malformed DNS message after 1", "1@0"},
		{"silent alone", []behaviour{silent},
			"no upstream server replied: 192.0.2.1:53: context deadline exceeded after 4000", "1@0 1@2000"},
		{"silent, silent", []behaviour{silent, silent},
			"no upstream server replied: 192.0.2.2:53: context deadline exceeded after 4400", "1@0 2@200 1@2200 2@2400"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRaceTest(tt.servers...)
				got := r.query(t)
				synctest.Wait()
				if tries := strings.Join(r.tries, " "); got != tt.want || tries != tt.tries {
					t.Errorf("got %s, tries %s; want %s, tries %s", got, tries, tt.want, tt.tries)
				}
			})
		})
	}
}

// TestRace_BusyServer: a server that replies to other queries is not silent: a slow name is
// not sent to the next one. If the server dies meanwhile, it is.
func TestRace_BusyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRaceTest(behaviour{delay: 1500 * time.Millisecond}, behaviour{delay: time.Millisecond})
		busy := func(until time.Duration) {
			for begin := time.Now(); time.Since(begin) < until; time.Sleep(50 * time.Millisecond) {
				r.list[0].recordReply(time.Now())
			}
		}
		go busy(2 * time.Second)
		if got := r.query(t); got != "NOERROR of 1 after 1500" || len(r.tries) != 1 {
			t.Errorf("busy: %s, tries %v", got, r.tries)
		}
		time.Sleep(time.Second)
		r.plan[r.list[0]] = behaviour{delay: never}
		go busy(500 * time.Millisecond)
		if got := r.query(t); got != "NOERROR of 2 after 801" {
			t.Errorf("dies after 500 ms: %s, tries %v", got, r.tries)
		}
	})
}

// TestRace_DownServer: while a server is down, a SERVFAIL of another is returned at once.
func TestRace_DownServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRaceTest(behaviour{delay: never}, behaviour{delay: time.Millisecond, rcode: dns.RcodeServerFailure})
		r.list[0].silent.Store(true)
		if got := r.query(t); got != "SERVFAIL of 2 after 1" || len(r.tries) != 1 {
			t.Errorf("%s, tries %v", got, r.tries)
		}
		r.plan[r.list[1]] = behaviour{delay: time.Millisecond, err: errors.New("connection refused")}
		r.plan[r.list[0]] = behaviour{delay: time.Millisecond}
		if got := r.query(t); got != "NOERROR of 1 after 2" {
			t.Errorf("when no other replies: %s", got)
		}
	})
}

// TestGroup_Leave: if the caller that sends the query leaves, one of the others sends it again, and all
// of them get the reply.
func TestGroup_Leave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g group
		want, reply := new(dns.Msg), make(chan *dns.Msg)
		begun := 0
		call := func(ctx context.Context, query string) (*dns.Msg, error) {
			return g.do(ctx, query, func() (*dns.Msg, error) {
				begun++ // resolve is called by one caller at a time
				select {
				case m := <-reply:
					return m, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			})
		}
		first, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := call(first, "q"); !errors.Is(err, context.Canceled) {
				t.Errorf("the caller that left: %v", err)
			}
		})
		synctest.Wait()
		waiting, leaveToo := context.WithCancel(t.Context())
		all.Go(func() {
			if _, err := call(waiting, "q"); !errors.Is(err, context.Canceled) {
				t.Errorf("a waiting caller that left: %v", err)
			}
		})
		synctest.Wait()
		leaveToo()
		for range 3 {
			all.Go(func() {
				if m, err := call(t.Context(), "q"); m != want || err != nil {
					t.Errorf("got %v, %v", m, err)
				}
			})
		}
		synctest.Wait()
		if begun != 1 {
			t.Errorf("sent %d times before the first caller leaves, want once", begun)
		}
		leave()
		synctest.Wait()
		if begun != 2 {
			t.Errorf("sent %d times after the first caller has left, want twice", begun)
		}
		reply <- want
		all.Wait()
		for wire := range g.inFlight.Range {
			t.Errorf("the flight of %v is left", wire)
		}
	})
}
