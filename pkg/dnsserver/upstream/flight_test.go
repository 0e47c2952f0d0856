// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/miekg/dns"
)

// TestGroup_Leave: if the caller that sends the query leaves, one of the others sends it again, and all
// of them get the reply.
func TestGroup_Leave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g group
		want, reply := new(dns.Msg), make(chan *dns.Msg)
		begun := 0
		call := func(ctx context.Context, query string) (*dns.Msg, error) {
			return g.do(ctx, query, func() (*dns.Msg, error) {
				begun++ // resolve is called by one caller at a time
				select {
				case m := <-reply:
					return m, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			})
		}
		first, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := call(first, "q"); !errors.Is(err, context.Canceled) {
				t.Errorf("the caller that left: %v", err)
			}
		})
		synctest.Wait()
		waiting, leaveToo := context.WithCancel(t.Context())
		all.Go(func() {
			if _, err := call(waiting, "q"); !errors.Is(err, context.Canceled) {
				t.Errorf("a waiting caller that left: %v", err)
			}
		})
		synctest.Wait()
		leaveToo()
		for range 3 {
			all.Go(func() {
				if m, err := call(t.Context(), "q"); m != want || err != nil {
					t.Errorf("got %v, %v", m, err)
				}
			})
		}
		synctest.Wait()
		if begun != 1 {
			t.Errorf("sent %d times before the first caller leaves, want once", begun)
		}
		leave()
		synctest.Wait()
		if begun != 2 {
			t.Errorf("sent %d times after the first caller has left, want twice", begun)
		}
		reply <- want
		all.Wait()
		if len(g.byWire) != 0 {
			t.Errorf("%d flights are left", len(g.byWire))
		}
	})
}

// TestGroup_Reply: all callers get the reply or the error, and the next query is sent again.
func TestGroup_Reply(t *testing.T) {
	failed := errors.New("failed")
	for _, want := range []error{nil, failed} {
		synctest.Test(t, func(t *testing.T) {
			var g group
			reply, release := new(dns.Msg), make(chan struct{})
			begun := 0
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					m, err := g.do(t.Context(), "q", func() (*dns.Msg, error) {
						begun++
						<-release
						return reply, want
					})
					if m != reply || !errors.Is(err, want) {
						t.Errorf("got %v, %v", m, err)
					}
				})
			}
			synctest.Wait()
			close(release)
			all.Wait()
			if _, err := g.do(t.Context(), "q", func() (*dns.Msg, error) { begun++; return nil, nil }); err != nil || begun != 2 {
				t.Errorf("sent %d times, %v, want twice", begun, err)
			}
			if len(g.byWire) != 0 {
				t.Errorf("%d flights are left", len(g.byWire))
			}
		})
	}
}
