// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

// TestNames_Ready: a server without names is not ready, one with stale names is.
func TestNames_Ready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, err := zone.New(zone.Config{Domain: "cluster.local."})
		if err != nil {
			t.Fatal(err)
		}
		status := cluster.Status{Resource: "services", Err: errors.New("connection refused")}
		s := names{zone: z, status: func() []cluster.Status { return []cluster.Status{status} }}
		check := func(want string) {
			t.Helper()
			if detail, err := s.ready(); fmt.Sprintf("%q %v", detail, err) != want {
				t.Errorf("%q %v, want %s", detail, err, want)
			}
		}
		check(`["services: not listed yet: connection refused"] the cluster's names are not loaded yet`)
		z.Update(1, func(e *zone.Edit) { e.SetStale(time.Now()) })
		time.Sleep(5 * time.Minute)
		check(`["names: from a snapshot, 5m0s old" "services: not listed yet: connection refused"] <nil>`)
		status = cluster.Status{Resource: "services", Listed: true, LastReply: time.Now()}
		z.Update(2, (*zone.Edit).SetLoaded)
		time.Sleep(3 * time.Second)
		check(`["names: loaded" "services: listed, last reply 3s ago"] <nil>`)
		s.status = nil
		check(`["names: loaded"] <nil>`)
	})
}
