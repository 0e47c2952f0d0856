// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/miekg/dns"
)

// Defaults of Config.
const (
	// DefaultTryTimeout bounds the wait for one server. The C libraries retry after five
	// seconds, in which two servers can be tried one after the other.
	DefaultTryTimeout = 2 * time.Second
	// DefaultTimeout bounds all tries of a query together.
	DefaultTimeout = 5 * time.Second
	// DefaultIdleTimeout is how long an unused connection is kept (RFC 7766
	// section 6.2.3: a few seconds).
	DefaultIdleTimeout = 10 * time.Second
	// DefaultLoopCheck is the interval between probes for loops.
	DefaultLoopCheck = 5 * time.Minute
)

// While a server loops, the interval between probes is Config.LoopCheck / loopRecheck: 30 seconds
// by default.
const loopRecheck = 10

// Errors of [Client.Exchange] that do not come from a server.
var (
	// ErrNoServers is returned while the list of servers is empty.
	ErrNoServers = errors.New("no upstream server configured")
	// ErrNoResources is returned if the process or the machine has no file descriptor or memory for
	// a socket. It says nothing about the server or the name.
	ErrNoResources = errors.New("no file descriptor or memory for a socket")
	// ErrLoop is returned while every server is in a forwarding loop.
	ErrLoop = errors.New("every upstream server is in a forwarding loop: remove this server from the host's resolv.conf")
)

// Config configures a Client. Zero values select the defaults, except where noted.
type Config struct {
	Servers []Server // may be empty until SetServers
	Policy  Policy   // the order of the servers; "": Sequential

	TryTimeout  time.Duration  // for the reply of one server; 0: DefaultTryTimeout
	Timeout     time.Duration  // for the reply of any server; 0: DefaultTimeout
	IdleTimeout time.Duration  // after which an unused connection is closed; 0: DefaultIdleTimeout
	RootCAs     *x509.CertPool // for TLS; nil: the system's

	// Options are the codes of the EDNS0 options of a query that are forwarded. All
	// other options are hop-by-hop and dropped. Usually the list is empty.
	Options []uint16

	Zone      string        // the stub domain that the servers answer for; "": the root
	Loop      *LoopDetector // nil: no loop detection
	LoopCheck time.Duration // interval of the probes for loops; 0: DefaultLoopCheck

	Metrics *Metrics // nil: no metrics

	Logger *slog.Logger // nil: no logs
}

// setDefaults validates c and replaces zero values.
func (c *Config) setDefaults() error {
	for _, v := range []struct {
		name         string
		value        *time.Duration
		defaultValue time.Duration
	}{
		{"TryTimeout", &c.TryTimeout, DefaultTryTimeout},
		{"Timeout", &c.Timeout, DefaultTimeout},
		{"IdleTimeout", &c.IdleTimeout, DefaultIdleTimeout},
		{"LoopCheck", &c.LoopCheck, DefaultLoopCheck},
	} {
		if *v.value < 0 {
			return fmt.Errorf("%s is negative: %v", v.name, *v.value)
		}
		if *v.value == 0 {
			*v.value = v.defaultValue
		}
	}
	c.Policy = cmp.Or(c.Policy, Sequential)
	if !slices.Contains(Policies(), string(c.Policy)) {
		return fmt.Errorf("policy %q: want one of %q", c.Policy, Policies())
	}
	c.Zone = dns.Fqdn(c.Zone)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Options = slices.Clone(c.Options)
	return nil
}

// Policy is the order in which the servers are tried. Servers that may be down are always last.
type Policy string

const (
	// Sequential is the order of the list, as the C libraries try servers.
	Sequential Policy = "sequential"
	// Random is a random order for each query.
	Random Policy = "random"
	// RoundRobin begins with the next server for each query.
	RoundRobin Policy = "roundRobin"
)

// Policies returns all policies.
func Policies() []string { return []string{string(Sequential), string(Random), string(RoundRobin)} }

// order returns the servers in the order of the policy, with those that may be down at the end.
// Looping servers are left out.
func (c *Client) order(servers []*server) []*server {
	list := slices.DeleteFunc(slices.Clone(servers), (*server).isLooping)
	switch n := len(list); {
	case n < 2:
		return list
	case c.cfg.Policy == Random:
		rand.Shuffle(n, func(i, j int) { list[i], list[j] = list[j], list[i] })
	case c.cfg.Policy == RoundRobin:
		first := int(c.turns.Add(1) % uint64(n))
		list = slices.Concat(list[first:], list[:first])
	}
	var up, down []*server
	for _, s := range list {
		if s.mayBeDown() {
			down = append(down, s)
		} else {
			up = append(up, s)
		}
	}
	return append(up, down...)
}
