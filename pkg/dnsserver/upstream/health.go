// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// How servers are judged.
const (
	// restAfter is how many failures in a row send a server to rest. One packet
	// may get lost.
	restAfter = 2
	// firstRest doubles with each further failure, up to lastRest.
	firstRest = time.Second
	lastRest  = 30 * time.Second
	// quiet is how long the log says no more of a server after it has said that it
	// fails. One that answers every other query changes a thousand times a second.
	quiet = 30 * time.Second
)

// server is a Server, what is known of it, and the connection to it.
type server struct {
	Server
	log *slog.Logger

	mu       sync.Mutex
	failures int       // in a row
	heard    time.Time // when it last replied
	due      time.Time // when failures has reached the limit: not before the others until then
	looping  bool      // it sends our queries back to us
	told     bool      // the log's last word is that it does not answer
	toldAt   time.Time // when the log has said so
	pipe     *pipe     // nil, open or closed
}

// admit tells whether s may go before those that rest, and for a server that rests
// when it is due. One caller is admitted when the rest is over; it is the probe, and
// the rest goes on for the others until its outcome is known.
func (s *server) admit(now time.Time, probe time.Duration) (rested bool, due time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures < restAfter {
		return true, time.Time{}
	}
	if now.Before(s.due) {
		return false, s.due
	}
	s.due = now.Add(probe)
	return true, time.Time{}
}

func (s *server) succeeded(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = now
	if s.told {
		s.told = false
		s.log.Info("the upstream server answers again", "server", s.Server)
	}
	s.failures = 0
}

// heardSince tells whether the server has replied to anybody after t.
func (s *server) heardSince(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard.After(t)
}

func (s *server) failed(now time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures++
	if s.failures < restAfter {
		return
	}
	rest := lastRest
	if doublings := s.failures - restAfter; doublings < 5 { // 1 s doubled five times is past lastRest
		rest = firstRest << doublings
	}
	s.due = now.Add(rest)
	if !s.told && now.Sub(s.toldAt) >= quiet {
		s.told, s.toldAt = true, now
		s.log.Warn("the upstream server does not answer, others are asked first", "server", s.Server, "error", err)
	}
}

func (s *server) isLooping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looping
}

// Policy is the order in which servers are asked, health aside.
type Policy int

const (
	// Sequential asks in the order of the list, as the C libraries do.
	Sequential Policy = iota
	// Random shuffles the list for each query.
	Random
	// RoundRobin begins with the next server for each query.
	RoundRobin
)

// order returns the servers for the turn-th query: those that rest come last, the
// one that is due first before the others. Servers that loop are left out.
func order(servers []*server, policy Policy, turn uint32, now time.Time, probe time.Duration) []*server {
	list := slices.DeleteFunc(slices.Clone(servers), (*server).isLooping)
	switch {
	case len(list) == 0:
		return nil
	case policy == Random:
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	case policy == RoundRobin:
		first := int(turn % uint32(len(list)))
		list = append(list[first:], list[:first]...)
	}
	due := make(map[*server]time.Time, len(list))
	for _, s := range list {
		if rested, at := s.admit(now, probe); !rested {
			due[s] = at
		}
	}
	slices.SortStableFunc(list, func(a, b *server) int { return due[a].Compare(due[b]) })
	return list
}
