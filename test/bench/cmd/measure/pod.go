// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"

	"github.com/dnsconfigurer/dnsconfigurer/internal/libc"
)

// parallel limits the lookups at the same time. The time of a lookup that had to wait for
// others counts from when it was due.
const parallel = 64

// podLoad simulates a pod that looks up names: with the queries of glibc for its resolv.conf, at a fixed
// rate, whether or not earlier lookups are complete. dnsperf sends queries whatever the replies are; here a
// search ends at the first match.
type podLoad struct {
	Address    netip.Addr     // of the pod, and of this machine
	ResolvConf string         // of the pod
	Server     netip.AddrPort // behind all of its nameservers
	Rate       int            // lookups a second
}

// podResult counts the results of lookups.
type podResult struct {
	Found, Failed int
	Queries       int
	Took          []float64 // of each, in milliseconds
}

// Run looks up n names, starting over at the end of the list, for the addresses of both
// families.
func (l podLoad) Run(ctx context.Context, n int, names []string) (podResult, error) {
	runtime.GC() // a collection during the load would add to the times
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var next atomic.Int64
	results := make([]podResult, parallel)
	group, ctx := errgroup.WithContext(ctx)
	begin := time.Now()
	take := func() (i int, ok bool) {
		i = int(next.Add(1)) - 1
		return i, i < n
	}
	for worker := range results {
		r := &results[worker]
		group.Go(func() error {
			return l.simulate(func(s *libc.Simulator) error {
				for i, ok := take(); ok; i, ok = take() {
					start := waitUntil(ctx, begin.Add(time.Duration(i)*time.Second/time.Duration(l.Rate)))
					found, err := s.Lookup(ctx, names[i%len(names)], libc.Both)
					if err != nil {
						return err
					}
					r.add(found, time.Since(start))
				}
				return nil
			})
		})
	}
	err := group.Wait()
	var sum podResult
	for _, r := range results {
		sum.Found, sum.Failed, sum.Queries = sum.Found+r.Found, sum.Failed+r.Failed, sum.Queries+r.Queries
		sum.Took = slices.Concat(sum.Took, r.Took)
	}
	return sum, err
}

// simulate calls f with a simulator of glibc in the pod.
func (l podLoad) simulate(f func(*libc.Simulator) error) error {
	network, err := dial(l.Address, l.Server)
	if err != nil {
		return err
	}
	defer network.close()
	return f(&libc.Simulator{
		Library: libc.Glibc, Resolver: libc.Glibc.Read(l.ResolvConf), Hostname: "pod",
		Network: libc.Network{UDP: network.exchange, TCP: noTCP},
	})
}

// add counts a lookup. It is found if there are addresses of both families.
func (r *podResult) add(l libc.Result, took time.Duration) {
	six := slices.ContainsFunc(l.Addresses, netip.Addr.Is6)
	if four := slices.ContainsFunc(l.Addresses, netip.Addr.Is4); four && six {
		r.Found++
	} else {
		r.Failed++
	}
	r.Queries += len(l.Queries)
	r.Took = append(r.Took, took.Seconds()*1e3)
}

// waitUntil waits until due and returns the start of the lookup: due, if it is past
// because earlier lookups were too slow, or else the present time, so that a late timer is
// not attributed to the server.
func waitUntil(ctx context.Context, due time.Time) time.Time {
	wait := time.Until(due)
	if wait <= 0 {
		return due
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return time.Now()
}

// network sends the queries of one lookup at a time. It has a socket for each family,
// which glibc queries at once.
type network map[uint16]*net.UDPConn

func dial(from netip.Addr, server netip.AddrPort) (network, error) {
	n := network{}
	for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
		conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), net.UDPAddrFromAddrPort(server))
		if err != nil {
			n.close()
			return nil, err
		}
		n[qtype] = conn
	}
	return n, nil
}

func (n network) close() {
	for _, conn := range n {
		conn.Close()
	}
}

// exchange is a libc.Exchange. All nameservers are the same server.
func (n network) exchange(ctx context.Context, _ netip.Addr, query *dns.Msg) (*dns.Msg, error) {
	conn := n[query.Question[0].Qtype]
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetReadDeadline(deadline); err != nil {
			return nil, err
		}
	}
	wire, err := query.Pack()
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(wire); err != nil {
		return nil, err
	}
	var buffer [dns.DefaultMsgSize]byte
	for {
		size, err := conn.Read(buffer[:])
		if err != nil {
			return nil, err
		}
		m := new(dns.Msg)
		if err := m.Unpack(buffer[:size]); err == nil && m.Id == query.Id { // else a late reply
			return m, nil
		}
	}
}

// noTCP is a libc.Exchange that is not used: the replies here are short.
func noTCP(context.Context, netip.Addr, *dns.Msg) (*dns.Msg, error) {
	return nil, errors.New("an answer does not fit into a datagram")
}
