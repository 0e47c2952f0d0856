// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// maxFailures is the number of consecutive failures after which a server backs
	// off. A single packet may be lost.
	maxFailures = 2
	// The backoff doubles with each further failure, from minBackoff to maxBackoff.
	minBackoff = time.Second
	maxBackoff = 30 * time.Second
	// logInterval is the least time between two warnings about a server. A server
	// that answers every other query changes its state a thousand times a second.
	logInterval = 30 * time.Second
)

// server is a Server with its health and its connection.
type server struct {
	Server
	log *slog.Logger

	mu         sync.Mutex
	failures   int       // consecutive
	lastReply  time.Time // zero: none yet
	retryAt    time.Time // end of the backoff, if failures has reached maxFailures
	looping    bool      // in a forwarding loop
	loggedDown bool      // the last log message says that the server is down
	loggedAt   time.Time // time of the last warning
	conn       *streamConn
}

// backoff returns the end of the backoff of s, or the zero time if s is to be tried in
// its place in the list. When the backoff is over, one caller gets the zero time: its
// query is the probe, and the backoff of the others is extended by the time it may take.
func (s *server) backoff(now time.Time, probeTime time.Duration) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures < maxFailures {
		return time.Time{}
	}
	if now.Before(s.retryAt) {
		return s.retryAt
	}
	s.retryAt = now.Add(probeTime)
	return time.Time{}
}

func (s *server) recordReply(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastReply = now
	if s.loggedDown {
		s.loggedDown = false
		s.log.Info("upstream server is up again", "server", s.Server)
	}
	s.failures = 0
}

// repliedSince reports whether the server has replied to any query after t.
func (s *server) repliedSince(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastReply.After(t)
}

func (s *server) recordFailure(now time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures++
	if s.failures < maxFailures {
		return
	}
	backoff := maxBackoff
	if doublings := s.failures - maxFailures; doublings < 5 { // 1 s doubled five times exceeds maxBackoff
		backoff = minBackoff << doublings
	}
	s.retryAt = now.Add(backoff)
	if !s.loggedDown && now.Sub(s.loggedAt) >= logInterval {
		s.loggedDown, s.loggedAt = true, now
		s.log.Warn("upstream server is down, trying the others first", "server", s.Server, "error", err)
	}
}

func (s *server) isLooping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looping
}

// order returns the servers in the order of the list, as the C libraries try them. The
// servers that back off follow, the earliest retry first. Looping servers are left out.
func order(servers []*server, now time.Time, probeTime time.Duration) []*server {
	list := slices.DeleteFunc(slices.Clone(servers), (*server).isLooping)
	retryAt := make(map[*server]time.Time, len(list))
	for _, s := range list {
		retryAt[s] = s.backoff(now, probeTime)
	}
	slices.SortStableFunc(list, func(a, b *server) int { return retryAt[a].Compare(retryAt[b]) })
	return list
}
