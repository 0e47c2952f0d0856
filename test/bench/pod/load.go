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

// parallel is how many lookups are under way at the most. Those that have to wait for
// others count from when they were due.
const parallel = 64

// Load is lookups at a fixed rate, whether or not those before are done.
type Load struct {
	Address    netip.Addr     // of the pod, and of this machine
	ResolvConf string         // of the pod
	Server     netip.AddrPort // behind all of its nameservers
	Rate       int            // lookups a second
}

// Result is what lookups came to.
type Result struct {
	Found, Failed int
	Queries       int
	Took          []float64 // of each, in milliseconds
}

// Run looks up n names, one after the other and over again, for the addresses of both
// families.
func (l Load) Run(ctx context.Context, n int, names []string) (Result, error) {
	runtime.GC() // one during the load would be seen in the times
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var next atomic.Int64
	results := make([]Result, parallel)
	group, ctx := errgroup.WithContext(ctx)
	begin := time.Now()
	for worker := range results {
		group.Go(func() error {
			network, err := dial(l.Address, l.Server)
			if err != nil {
				return err
			}
			defer network.close()
			p := libc.Simulator{
				Library: libc.Glibc, Resolver: libc.Glibc.Read(l.ResolvConf), Hostname: "pod",
				Network: libc.Network{UDP: network.exchange, TCP: noTCP},
			}
			r := &results[worker]
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				start := waitUntil(ctx, begin.Add(time.Duration(i)*time.Second/time.Duration(l.Rate)))
				found, err := p.Lookup(ctx, names[i%len(names)], libc.Both)
				if err != nil {
					return err
				}
				r.add(found, time.Since(start))
			}
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

// add counts a lookup. It has found what it looked for if there are addresses of both
// families.
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

// waitUntil waits for a time and returns when the lookup that is due then begins: if it is
// past already, then, for those before it were too slow; else now, for a late timer is
// not the server's fault.
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
