// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"net"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
)

// relays are the connections of relays and shims. The zero value is ready to use.
type relays struct {
	mu           sync.Mutex
	synchronized map[net.Conn]bool // whether it is connected to the runtime, and has announced all sandboxes
}

// register registers the metrics with registry.
func (r *relays) register(registry prometheus.Registerer) {
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dnsconfigurer_agent_relay_connections",
			Help: "Connections of NRI relays and shims.",
		}, func() float64 {
			connected, _ := r.count()
			return float64(connected)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dnsconfigurer_agent_relay_runtime_connections",
			Help: "Connections of NRI relays and shims that are connected to the container runtime, too.",
		}, func() float64 {
			_, withRuntime := r.count()
			return float64(withRuntime)
		}))
}

// add adds a relay that has reported nothing.
func (r *relays) add(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.synchronized == nil {
		r.synchronized = map[net.Conn]bool{}
	}
	r.synchronized[conn] = false
}

// report notes what an event of a relay says about the runtime.
func (r *relays) report(conn net.Conn, kind podfile.Kind) {
	if kind == podfile.Synchronized || kind == podfile.Unsynchronized {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.synchronized[conn] = kind == podfile.Synchronized
	}
}

func (r *relays) remove(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.synchronized, conn)
}

// count returns the number of relays, and the number of those that have announced the sandboxes of the runtime
// and are still connected to it.
func (r *relays) count() (connected, withRuntime int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, synchronized := range r.synchronized {
		if synchronized {
			withRuntime++
		}
	}
	return len(r.synchronized), withRuntime
}

// ready returns an error if no relay is connected, or none of them to the runtime.
func (r *relays) ready() error {
	switch connected, withRuntime := r.count(); {
	case connected == 0:
		return errors.New("no NRI relay or shim is connected: run dnsconfigurer nri")
	case withRuntime == 0:
		return errors.New("the NRI relay or shim is not connected to the container runtime: new pods get the kubelet's DNS: " +
			"its log has the reason")
	}
	return nil
}
