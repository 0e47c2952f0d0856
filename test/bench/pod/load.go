// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dnsconfigurer/dnsconfigurer/internal/libc"
)

// parallel limits the lookups at the same time. The time of a lookup that had to wait for
// others counts from when it was due.
const parallel = 64

// Load sends lookups at a fixed rate, whether or not earlier ones are complete.
type Load struct {
	Address    netip.Addr     // of the pod, and of this machine
	ResolvConf string         // of the pod
	Server     netip.AddrPort // behind all of its nameservers
	Rate       int            // lookups a second
}

// Result counts the results of lookups.
type Result struct {
	Found, Failed int
	Queries       int
	Took          []float64 // of each, in milliseconds
}

// Run looks up n names, starting over at the end of the list, for the addresses of both
// families.
func (l Load) Run(ctx context.Context, n int, names []string) (Result, error) {
	runtime.GC() // a collection during the load would add to the times
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var next atomic.Int64
	results := make([]Result, parallel)
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
	var sum Result
	for _, r := range results {
		sum.Found, sum.Failed, sum.Queries = sum.Found+r.Found, sum.Failed+r.Failed, sum.Queries+r.Queries
		sum.Took = slices.Concat(sum.Took, r.Took)
	}
	return sum, err
}

// simulate calls f with a simulator of glibc in the pod.
func (l Load) simulate(f func(*libc.Simulator) error) error {
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
func (r *Result) add(l libc.Result, took time.Duration) {
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
