// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlots_Share: a namespace does not get all slots, and a slot that becomes free goes to the
// namespace with the fewest, then to the one whose turn it is.
func TestSlots_Share(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(3, 2)
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		request := func(namespace string) {
			all.Go(func() {
				release, err := s.acquire(t.Context(), namespace)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, namespace)
				mu.Unlock()
				time.Sleep(time.Second)
				release()
			})
			synctest.Wait() // requests arrive one after the other
		}
		for _, namespace := range []string{"a", "a", "a", "a", "b", "b", "c"} {
			request(namespace)
		}
		mu.Lock()
		if want := []string{"a", "a", "b"}; !slices.Equal(order, want) {
			t.Errorf("got %v at once, want %v", order, want)
		}
		mu.Unlock()
		all.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		// Of the second round, all have none: each namespace gets one before another gets its second.
		slices.Sort(order[3:6])
		if want := []string{"a", "b", "c"}; !slices.Equal(order[3:6], want) || len(order) != 7 {
			t.Errorf("got %v in the second round, want %v", order[3:], want)
		}
		if s.free != 3 || len(s.held) != 0 || len(s.waiting) != 0 {
			t.Errorf("%d slots are free, %v are held, %d wait", s.free, s.held, len(s.waiting))
		}
	})
}

// TestSlots_ManyNamespaces: a tenant with many namespaces has all slots, and requests without end. The
// request of another namespace waits for one of each of these namespaces, and for no second one.
func TestSlots_ManyNamespaces(t *testing.T) {
	const namespaces, n = 20, 5
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(n, n-1)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range namespaces {
			for range n {
				all.Go(func() {
					for ctx.Err() == nil {
						release, err := s.acquire(ctx, fmt.Sprint("hostile", i))
						if err != nil {
							return
						}
						time.Sleep(time.Second)
						release()
					}
				})
			}
		}
		time.Sleep(time.Minute + time.Second/2) // in the middle of requests
		began := time.Now()
		release, err := s.acquire(ctx, "shop")
		if err != nil {
			t.Fatal(err)
		}
		const most = namespaces/n + 1 // and those in progress
		if waited := time.Since(began); waited > most*time.Second {
			t.Errorf("waited %v, want at most %d requests of a second", waited, most)
		}
		release()
		cancel()
		all.Wait()
	})
}

// TestSlots_Ended: those that give up leave no slot behind, also if they get it at that moment.
func TestSlots_Ended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(2, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				release, err := s.acquire(ctx, "a")
				if err != nil {
					if !errors.Is(err, errNoSlot) || !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					return
				}
				time.Sleep(time.Second) // until ctx ends
				release()
			})
		}
		all.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.free != 2 || len(s.held) != 0 || len(s.waiting) != 0 {
			t.Errorf("%d slots are free, %v are held, %d wait", s.free, s.held, len(s.waiting))
		}
	})
}
