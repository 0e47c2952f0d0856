// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
)

// slowBodies is a fault: the pods of the namespace hostile have large objects that do not end. It
// counts the replies that the client reads beyond the limit of small requests.
type slowBodies struct{ reading atomic.Int32 }

func (b *slowBodies) serve(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/namespaces/hostile/") {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if _, err := fmt.Fprintf(w, `{"kind":"Pod","metadata":{"annotations":{"a":"%s`, strings.Repeat("x", 200<<10)); err != nil {
			return // the client has closed it
		}
		b.reading.Add(1)
		defer b.reading.Add(-1)
		kubeapi.Stall(w, r)
	}
}

// TestLookup_HostileTenant: a tenant starts 100 pods at once whose objects are large and slow to
// request. A few are requested at a time, the pods of others are found without delay, and the circuit
// breaker stays closed. The watch has delivered none of the pods.
func TestLookup_HostileTenant(t *testing.T) {
	web := newPod("shop", "web", "u1")
	synctest.Test(t, func(t *testing.T) {
		s, bodies := newAPIServer(t, web), new(slowBodies)
		s.setFaults(nil, kubeapi.Stall)
		api := clientOf(t, "http://api.invalid", kubeapi.Transport(bodies.serve(s)))
		p, stop := start(t, cluster.PodsConfig{Client: api})
		defer stop()
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				pod := newPod("hostile", fmt.Sprint("p", i), fmt.Sprint("h", i))
				if _, err := p.Lookup(t.Context(), refOf(pod)); err == nil {
					t.Error("a pod was found that never arrived")
				}
			})
		}
		for range 3 {
			synctest.Wait()
			if n := bodies.reading.Load(); n != 5 {
				t.Errorf("%d large pods are requested at once, want 5", n)
			}
			expect(t, p, refOf(web), 0)
			time.Sleep(300 * time.Millisecond)
		}
		all.Wait()
		expect(t, p, refOf(web), 0)
	})
}
