// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
)

// TestRelays: an agent is ready unless its relays report to be without the runtime. The startup taint
// is removed only while one of them reports to have its sandboxes.
func TestRelays(t *testing.T) {
	const reset, running = podfile.Reset, podfile.Running
	const synced, lost = podfile.Synchronized, podfile.Unsynchronized
	type events = []podfile.Kind
	for name, c := range map[string]struct {
		relays       []events
		ready        bool
		synchronized bool
	}{
		"none":                      {},
		"connected a moment ago":    {relays: []events{{}}, ready: true},
		"without the runtime":       {relays: []events{{reset, lost}}},
		"with the runtime":          {relays: []events{{reset, running, synced, running}}, ready: true, synchronized: true},
		"the runtime is lost":       {relays: []events{{reset, running, synced, lost}}},
		"an event after the loss":   {relays: []events{{reset, synced, lost, running}}},
		"the runtime is back":       {relays: []events{{reset, synced, lost, reset, synced}}, ready: true, synchronized: true},
		"sandboxes follow":          {relays: []events{{reset, synced, reset, running}}, ready: true},
		"one that reports nothing":  {relays: []events{{reset, running}}, ready: true},
		"one that reports no loss":  {relays: []events{{reset, synced}}, ready: true, synchronized: true},
		"two, one lost":             {relays: []events{{reset, synced, lost}, {reset, synced}}, ready: true, synchronized: true},
		"two, one lost, one silent": {relays: []events{{reset, synced, lost}, {reset}}, ready: true},
		"two, both lost":            {relays: []events{{reset, synced, lost}, {reset, lost}}},
	} {
		var r relays
		var conns []net.Conn
		for _, kinds := range c.relays {
			conn := new(net.UnixConn)
			r.add(conn)
			for _, kind := range kinds {
				r.report(conn, kind)
			}
			conns = append(conns, conn)
		}
		if err := r.ready(); (err == nil) != c.ready {
			t.Errorf("%s: ready: %v, want %t", name, err, c.ready)
		}
		if got := r.withRuntime() > 0; got != c.ready {
			t.Errorf("%s: with the runtime: %t, want %t", name, got, c.ready)
		}
		if got := r.isSynchronized(); got != c.synchronized {
			t.Errorf("%s: synchronized: %t, want %t", name, got, c.synchronized)
		}
		for _, conn := range conns {
			r.remove(conn)
		}
		if n := r.connected(); n != 0 || r.isSynchronized() || r.ready() == nil {
			t.Errorf("%s: without the connections: %d, synchronized: %t, ready: %v", name, n, r.isSynchronized(), r.ready())
		}
	}
}
