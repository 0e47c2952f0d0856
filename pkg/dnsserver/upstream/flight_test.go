// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/miekg/dns"
)

// TestGroup_Leave: a flight continues while a caller waits, and is canceled when the last one
// leaves. The next query begins another flight.
func TestGroup_Leave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f group
		var begun atomic.Int64
		resolve := func(ctx context.Context) (*dns.Msg, error) {
			begun.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		caller, leave := context.WithCancel(t.Context())
		first, second := f.join(caller, "q", resolve), f.join(t.Context(), "q", resolve)
		other := f.join(t.Context(), "other", resolve)
		leave()
		f.leave("q", first)
		synctest.Wait()
		if first != second || begun.Load() != 2 || second.err != nil {
			t.Fatalf("%d flights, and the error %v, want 2 that continue", begun.Load(), second.err)
		}
		f.leave("q", second)
		third := f.join(t.Context(), "q", resolve)
		synctest.Wait()
		if !errors.Is(second.err, context.Canceled) || third == second || begun.Load() != 3 || third.err != nil {
			t.Errorf("%d flights, the first one ended with %v, the last one with %v", begun.Load(), second.err, third.err)
		}
		f.leave("q", third)
		f.leave("other", other)
		synctest.Wait()
		if len(f.byWire) != 0 {
			t.Errorf("%d flights are left", len(f.byWire))
		}
	})
}

// TestGroup_Reply: all callers get the reply, and the next query begins another flight.
func TestGroup_Reply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f group
		reply := make(chan *dns.Msg)
		resolve := func(context.Context) (*dns.Msg, error) { return <-reply, nil }
		all := []*flight{f.join(t.Context(), "q", resolve), f.join(t.Context(), "q", resolve)}
		want := new(dns.Msg)
		reply <- want
		synctest.Wait()
		next := f.join(t.Context(), "q", resolve)
		for _, fl := range all {
			<-fl.done
			if fl.reply != want || fl.err != nil || fl == next {
				t.Errorf("got %v, %v", fl.reply, fl.err)
			}
			f.leave("q", fl)
		}
		reply <- nil
		<-next.done
		f.leave("q", next)
		synctest.Wait()
		if len(f.byWire) != 0 {
			t.Errorf("%d flights are left", len(f.byWire))
		}
	})
}
