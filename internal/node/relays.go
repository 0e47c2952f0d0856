// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"net"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
)

// relays are the connections of relays and shims. The zero value is ready to use.
type relays struct {
	mu sync.Mutex
	// last is what each has reported last about the runtime: Synchronized, Unsynchronized, or
	// Reset for neither. The oldest relays report neither, older ones no Unsynchronized.
	last map[net.Conn]podfile.Kind
}

// register registers the metrics with registry.
func (r *relays) register(registry prometheus.Registerer) {
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dnsconfigurer_agent_relay_connections",
			Help: "Connections of NRI relays and shims.",
		}, func() float64 { return float64(r.connected()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dnsconfigurer_agent_relay_runtime_connections",
			Help: "Connections of NRI relays and shims that are connected to the container runtime, too.",
		}, func() float64 { return float64(r.withRuntime()) }))
}

// add adds a relay that has reported nothing.
func (r *relays) add(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[net.Conn]podfile.Kind{}
	}
	r.last[conn] = podfile.Reset
}

// report notes what an event of a relay says about the runtime.
func (r *relays) report(conn net.Conn, kind podfile.Kind) {
	switch kind {
	case podfile.Reset, podfile.Synchronized, podfile.Unsynchronized:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.last[conn] = kind
	}
}

func (r *relays) remove(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, conn)
}

// count returns the number of relays that have reported one of kinds last.
func (r *relays) count(kinds ...podfile.Kind) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, last := range r.last {
		if slices.Contains(kinds, last) {
			n++
		}
	}
	return n
}

// connected returns the number of relays.
func (r *relays) connected() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.last)
}

// isSynchronized reports whether a relay has announced the sandboxes of the runtime, and is still
// connected to it.
func (r *relays) isSynchronized() bool { return r.count(podfile.Synchronized) > 0 }

// withRuntime returns the number of relays that are connected to the runtime. One that has not reported
// whether it is, as the oldest ones, is taken to be.
func (r *relays) withRuntime() int { return r.count(podfile.Reset, podfile.Synchronized) }

// ready returns an error if no relay is connected, or none of them to the runtime.
func (r *relays) ready() error {
	switch {
	case r.connected() == 0:
		return errors.New("no NRI relay or shim is connected: run dnsconfigurer nri")
	case r.withRuntime() == 0:
		return errors.New("the NRI relay or shim is not connected to the container runtime: new pods get the kubelet's DNS: " +
			"its log has the reason")
	}
	return nil
}
