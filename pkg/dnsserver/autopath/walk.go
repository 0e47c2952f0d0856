// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package autopath

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// WalkTimeout is how long a walk takes at most: glibc and musl give a query five seconds.
const WalkTimeout = 4 * time.Second

// Outcome is what is known of a candidate, and of a search list.
type Outcome uint8

// The outcomes. Found is an address of either family, whichever was asked for, so that
// both families are answered with the same name; or a record of the type asked for.
const (
	NXDomain Outcome = iota // no such name
	NoData                  // a name without what is looked for
	Found
	Failed // nobody could say
)

// String returns the outcome as a label for metrics.
func (o Outcome) String() string { return [...]string{"absent", "nodata", "found", "failed"}[o] }

// NoLimit is a TTL that bounds nothing.
const NoLimit = math.MaxUint32

// CandidateResult is what was found out about one candidate.
type CandidateResult[A any] struct {
	Outcome Outcome
	Answer  A

	// NegativeTTL is how long others may rely on NXDomain or NoData, in seconds.
	NegativeTTL uint32

	// InCluster: the cluster DNS answers for the name. What it does not know now it
	// may know in a moment, and the names behind must not take its place.
	InCluster bool
}

// LookupFunc finds out about a name. What is in memory it returns at once, with a nil
// later. Otherwise later does it, until its context ends at the latest; of the
// CandidateResult, only InCluster counts then. A lookup is called by one goroutine, what it
// returns by several.
type LookupFunc[A any] func(name fqdn.Name) (now CandidateResult[A], later func(context.Context) CandidateResult[A])

// Result is where a walk ended.
type Result[A any] struct {
	Outcome Outcome
	Name    fqdn.Name // that was Found

	// Answer is that of the name Found, of the failure, or else of the last
	// candidate.
	Answer A

	// TTL bounds what the result may be kept for, in seconds: until one of the
	// candidates that were passed over may be there. It is 0 when one of them
	// failed: the result is a guess then.
	TTL uint32

	Lookups int // candidates that were looked up
}

// Walk goes along the candidates:
//
//   - the first that is Found wins;
//   - NoData is passed over, and remembered: glibc does so, and a namespace must not
//     hide a host of the same name;
//   - a failure of the cluster's own names is the result;
//   - any other failure is passed over. When a later candidate is Found that is the
//     result, for now; otherwise the walk has failed.
//
// Nothing is asked of others for the sake of a candidate behind one that is known to
// end the walk. The cluster's names are looked up in turn, those of others at once.
// After [WalkTimeout] what has not been found out counts as failed.
func Walk[A any](ctx context.Context, candidates []fqdn.Name, lookup LookupFunc[A]) Result[A] {
	ctx, cancel := context.WithTimeout(ctx, WalkTimeout)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()

	steps := make([]step[A], 0, len(candidates))
	for _, name := range candidates {
		found, later := lookup(name)
		if later != nil && found.InCluster {
			found, later = later(ctx), nil
			found.InCluster = true
		}
		steps = append(steps, step[A]{name: name, found: found, later: later})
		if later == nil && found.ends() {
			break
		}
	}
	for i := range steps {
		if s := &steps[i]; s.later != nil {
			s.done = make(chan struct{})
			waiting.Go(func() {
				defer close(s.done)
				s.found = s.later(ctx)
			})
		}
	}
	return conclude(steps)
}

// step is a candidate on the way. found is to be read after done, if there is one.
type step[A any] struct {
	name  fqdn.Name
	found CandidateResult[A]
	later func(context.Context) CandidateResult[A]
	done  chan struct{}
}

func (f *CandidateResult[A]) ends() bool {
	return f.Outcome == Found || f.Outcome == Failed && f.InCluster
}

// conclude takes the findings in the order of the candidates, as they come.
func conclude[A any](steps []step[A]) Result[A] {
	r := Result[A]{TTL: NoLimit, Lookups: len(steps)}
	var failure *CandidateResult[A]
	for i := range steps {
		s := &steps[i]
		if s.done != nil {
			<-s.done
		}
		f := &s.found
		switch {
		case f.ends():
			r.Outcome, r.Answer = f.Outcome, f.Answer
			if f.Outcome == Found {
				r.Name = s.name
			}
			return r
		case f.Outcome == Failed:
			r.TTL = 0
			if failure == nil {
				failure = f
			}
		default:
			r.TTL = min(r.TTL, f.NegativeTTL)
			r.Outcome = max(r.Outcome, f.Outcome) // NoData, if one had that
		}
		r.Answer = f.Answer
	}
	if failure != nil {
		r.Outcome, r.Answer = Failed, failure.Answer
	}
	return r
}
