// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/miekg/dns"
)

// Defaults of Config.
const (
	// DefaultTryTimeout is how long one server is waited for. The C libraries ask
	// again after five seconds; until then a second server must have had its time.
	DefaultTryTimeout = 2 * time.Second
	// DefaultTimeout is for all tries of a query together.
	DefaultTimeout = 5 * time.Second
	// DefaultMaxConcurrent bounds sockets and memory when nothing answers.
	DefaultMaxConcurrent = 1000
	// DefaultIdleTimeout is how long an unused connection is kept (RFC 7766
	// section 6.2.3: a few seconds).
	DefaultIdleTimeout = 10 * time.Second
	// DefaultLoopCheck is the time between probes for loops.
	DefaultLoopCheck = 5 * time.Minute
)

// loopRecheck divides Config.LoopCheck while a server loops: every 30 seconds.
const loopRecheck = 10

// Errors of [Client.Exchange] that are ours and not a server's.
var (
	// ErrNoServers says that there are no upstream servers.
	ErrNoServers = errors.New("there are no upstream servers")
	// ErrLoop says that all servers send our queries back to us.
	ErrLoop = errors.New("all upstream servers send our queries back to us; the host's resolv.conf must not lead to this server")
	// ErrBusy says that Config.MaxConcurrent queries are on their way.
	ErrBusy = errors.New("too many queries are waiting for upstream servers")
)

// Config is how a Client works. Zero values are defaults, except where said.
type Config struct {
	Servers []Server // may be empty until SetServers
	Policy  Policy

	TryTimeout    time.Duration  // DefaultTryTimeout
	Timeout       time.Duration  // DefaultTimeout
	MaxConcurrent int            // DefaultMaxConcurrent
	IdleTimeout   time.Duration  // DefaultIdleTimeout
	RootCAs       *x509.CertPool // for TLS; nil: the system's

	// Options are the codes of the EDNS0 options of a query that are sent on. The
	// others are between the asker and us. Usually none is.
	Options []uint16

	Loop      *LoopDetector // nil: loops are not looked for
	Zone      string        // where the servers are asked for probes: a stub domain's zone; empty: the root
	LoopCheck time.Duration // DefaultLoopCheck

	// Observe is called after each transmission, concurrently. nil: not at all.
	Observe func(Attempt)

	Metrics *Metrics // nil: none

	Logger *slog.Logger // nil: silent
}

// Attempt is what became of one transmission to one server.
type Attempt struct {
	Server   Server
	Network  string // "udp", "tcp" or "tls"
	Duration time.Duration
	Reply    *dns.Msg // nil if there is none; not to be changed
	Err      error    // also when a reply is truncated and TCP has to follow
}

func (c *Config) fill() error {
	for _, v := range []struct {
		name  string
		value *time.Duration
		zero  time.Duration
	}{
		{"TryTimeout", &c.TryTimeout, DefaultTryTimeout},
		{"Timeout", &c.Timeout, DefaultTimeout},
		{"IdleTimeout", &c.IdleTimeout, DefaultIdleTimeout},
		{"LoopCheck", &c.LoopCheck, DefaultLoopCheck},
	} {
		if *v.value < 0 {
			return fmt.Errorf("%s is %v, it cannot be negative", v.name, *v.value)
		}
		if *v.value == 0 {
			*v.value = v.zero
		}
	}
	switch {
	case c.MaxConcurrent < 0:
		return fmt.Errorf("MaxConcurrent is %d, it cannot be negative", c.MaxConcurrent)
	case c.MaxConcurrent == 0:
		c.MaxConcurrent = DefaultMaxConcurrent
	}
	if c.Policy < Sequential || c.Policy > RoundRobin {
		return fmt.Errorf("there is no policy %d", c.Policy)
	}
	c.Zone = dns.Fqdn(c.Zone)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Options = slices.Clone(c.Options)
	return nil
}
