// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodenet

import (
	"errors"
	"net/netip"
	"time"
)

// Interface is an interface and the addresses that it must have.
type Interface struct {
	Name  string
	Addrs []netip.Addr

	kind string // of an interface that is created; "": dummy, which the kernels of test machines may lack
}

// Kind is the kind of what Ensure restores.
type Kind string

// The kinds.
const (
	KindInterface Kind = "interface" // was missing
	KindState     Kind = "state"     // of the interface: was down
	KindAddress   Kind = "address"   // was missing
)

// Restored is something that was missing.
type Restored struct {
	Kind Kind
	Name string // of the interface, or the address
}

func (r Restored) String() string { return string(r.Kind) + " " + r.Name }

// ErrFamilyDisabled is the error for an address whose family the kernel has disabled.
var ErrFamilyDisabled = errors.New("the kernel has disabled IPv6")

// Address is an address of the node cache.
type Address struct {
	netip.AddrPort

	// Leased exempts queries to the address from translation only while the lease lasts: from a probe that
	// grants it until LeaseTime after the last reply over UDP. Otherwise they are exempt as long as the process lives.
	Leased bool
}

// LeaseTime is the lease of a leased address. It is the time that queries are sent to a server that
// hangs. A client repeats a query after 1 s at the earliest, so a client sends at most one query in vain.
const LeaseTime = 300 * time.Millisecond
