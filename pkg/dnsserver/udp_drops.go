// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"net"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// receiveDrops counts the packets that the kernel drops for a socket, nearly always because its
// receive buffer is full. The zero value has no sockets.
type receiveDrops struct {
	mu      sync.Mutex
	sockets []*net.UDPConn
	last    uint64 // the last count: the sockets are closed before the last scrape
}

// setSockets sets the sockets to count for.
func (d *receiveDrops) setSockets(sockets []*net.UDPConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sockets = sockets
}

// count returns the number of packets so far.
func (d *receiveDrops) count() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	sum := uint64(0)
	for _, conn := range d.sockets {
		n, err := socketDrops(conn)
		if err != nil {
			return d.last
		}
		sum += uint64(n)
	}
	d.last = sum
	return sum
}

// collector returns the metric.
func (d *receiveDrops) collector() prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "dnsconfigurer_dns_udp_receive_drops_total",
		Help: "Packets over UDP that the kernel dropped, because the receive buffer of the socket was full. Linux only.",
	}, func() float64 { return float64(d.count()) })
}
