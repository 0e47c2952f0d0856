// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/spec"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/world"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// register is an object that clients query: its states in the order in which they were
// written, and the progress of a server.
type register struct {
	name      string
	questions []ask.Question
	world     func(state int) *world.World // the object in a state, and what it needs

	// put writes a state to the API server. It may be called again for a state that the
	// server did not accept, or accepted without a response.
	put func(context.Context, *world.World) error

	mu     sync.Mutex
	states [][]ask.Reply // of each question
	acked  int           // states that the API server has accepted
	seen   int           // a reply had this state, or a later one
	last   []bool        // by question: the newest reply has the last state
	count  int           // queries
	wrong  []string
}

// maxWrong is how many wrong replies are kept to be printed.
const maxWrong = 5

// next adds a state, which replies may have from now on. There is one writer.
func (r *register) next() (state int, w *world.World) {
	state = len(r.states) // there is one writer
	w = r.world(state)
	zone := spec.New(w, nil, "disabled")
	replies := make([]ask.Reply, len(r.questions))
	for i, q := range r.questions {
		replies[i] = ask.Normal(q, zone.Answer(q))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states = append(r.states, replies)
	r.last = make([]bool, len(r.questions))
	return state, w
}

func (r *register) accepted(state int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acked = state + 1
}

// ask sends a query and checks the reply.
func (r *register) ask(c *ask.Client, i int) {
	r.mu.Lock()
	floor := r.seen
	r.mu.Unlock()
	m, err := c.Ask(r.questions[i])
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	if err != nil {
		r.fail("%v: %v", r.questions[i], err)
		return
	}
	r.check(i, ask.Normal(r.questions[i], m), floor)
}

// check compares a reply with the states. An earlier reply had state floor when the query
// was sent. The caller holds mu.
func (r *register) check(i int, got ask.Reply, floor int) {
	is := func(replies []ask.Reply) bool { return got.Equal(replies[i]) }
	r.last[i] = is(r.states[len(r.states)-1])
	// Of several equal states the first one is assumed, which requires the least of later
	// replies.
	if n := slices.IndexFunc(r.states[floor:], is); n >= 0 {
		r.seen = max(r.seen, floor+n)
	} else if n := slices.IndexFunc(r.states, is); n >= 0 {
		r.fail("%v: went back to state %d after %d: %v", r.questions[i], n, floor, got)
	} else {
		r.fail("%v: not in states %d to %d: %v", r.questions[i], floor, len(r.states)-1, got)
	}
}

func (r *register) fail(format string, args ...any) {
	if len(r.wrong) < maxWrong {
		r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
	}
}

// askOn sends all questions to server repeatedly until ctx ends.
func (r *register) askOn(ctx context.Context, t *testing.T, server string) {
	c, err := ask.Dial(server)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	for tick := time.Tick(2 * time.Millisecond); ctx.Err() == nil; <-tick {
		for i := range r.questions {
			r.ask(c, i)
		}
	}
}

// writeOn writes state after state until ctx ends. The last one is always written.
func (r *register) writeOn(ctx context.Context) {
	forced := context.WithoutCancel(ctx)
	for tick := time.Tick(20 * time.Millisecond); ctx.Err() == nil; <-tick {
		state, w := r.next()
		for start := time.Now(); time.Since(start) < patience; <-tick {
			// An API server that hangs has not accepted the state. An abandoned attempt
			// cannot overwrite the next state: the server compares versions.
			attempt, cancel := context.WithTimeout(forced, 2*time.Second)
			err := r.put(attempt, w)
			cancel()
			if err == nil {
				r.accepted(state)
				break
			}
		}
	}
}

// progress returns the number of accepted states and of queries.
func (r *register) progress() (acked, queries int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acked, r.count
}

// behind returns an error if the server has not reached the last state.
func (r *register) behind() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.last, false) {
		return fmt.Errorf("%s has not reached state %d, the API server has accepted %d", r.name, len(r.states)-1, r.acked)
	}
	return nil
}

// settled returns an error if the reply to a question does not have the last state.
func (r *register) settled(i int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.last[i] {
		return fmt.Errorf("%v has not reached state %d", r.questions[i], len(r.states)-1)
	}
	return nil
}

// report fails the test for wrong replies.
func (r *register) report(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Logf("%s: %d states, %d queries", r.name, len(r.states), r.count)
	for _, w := range r.wrong {
		t.Errorf("%s: %s", r.name, w)
	}
}

// load is the clients that query objects, and the writers that change them.
type load struct {
	t         *testing.T
	registers []*register
	stopAsked context.CancelFunc
	clients   sync.WaitGroup

	stopWrites context.CancelFunc
	writers    sync.WaitGroup
}

// askAll sends queries to server until the test ends.
func askAll(t *testing.T, server string, registers ...*register) *load {
	l := &load{t: t, registers: registers, stopWrites: func() {}}
	var ctx context.Context
	ctx, l.stopAsked = context.WithCancel(t.Context())
	for _, r := range registers {
		l.clients.Go(func() { r.askOn(ctx, t, server) })
	}
	t.Cleanup(func() { l.stopWriting(); l.stopAsking() })
	return l
}

func (l *load) stopAsking() {
	l.stopAsked()
	l.clients.Wait()
}

// write starts the changes.
func (l *load) write() {
	var ctx context.Context
	ctx, l.stopWrites = context.WithCancel(l.t.Context())
	for _, r := range l.registers {
		l.writers.Go(func() { r.writeOn(ctx) })
	}
}

func (l *load) stopWriting() {
	l.stopWrites()
	l.writers.Wait()
}

// more waits for a number of changes of each object, and of queries.
func (l *load) more(changes, questions int) {
	l.t.Helper()
	type count struct{ acked, queries int }
	before := map[*register]count{}
	for _, r := range l.registers {
		acked, queries := r.progress()
		before[r] = count{acked, queries}
	}
	poll.UntilNil(l.t, "changes and questions", func() error {
		return l.each(func(r *register) error {
			acked, queries := r.progress()
			if acked -= before[r].acked; acked < changes {
				return fmt.Errorf("%s was changed %d times, want %d", r.name, acked, changes)
			}
			if queries -= before[r].queries; queries < questions {
				return fmt.Errorf("%s was queried %d times, want %d", r.name, queries, questions)
			}
			return nil
		})
	})
}

// catchUp ends the changes and waits until the server has the last states.
func (l *load) catchUp() {
	l.t.Helper()
	l.stopWriting()
	poll.UntilNil(l.t, "the last states", func() error { return l.each((*register).behind) })
}

// each joins the errors of the objects.
func (l *load) each(f func(*register) error) error {
	var errs []error
	for _, r := range l.registers {
		errs = append(errs, f(r))
	}
	return errors.Join(errs...)
}

// report ends the load and fails the test for wrong replies.
func (l *load) report() {
	l.t.Helper()
	l.stopWriting()
	l.stopAsking()
	for _, r := range l.registers {
		r.report(l.t)
	}
}

// patience limits everything that must happen at some time, on a busy machine too.
const patience = 3 * time.Minute
