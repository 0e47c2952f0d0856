// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// logInterval is the interval at which a runtime that stays unreachable is logged.
const logInterval = time.Minute

// dialResult is the error of the last attempt to connect to the runtime.
type dialResult struct{ last atomic.Pointer[error] }

func (d *dialResult) set(err error) { d.last.Store(&err) }

func (d *dialResult) get() error {
	if err := d.last.Load(); err != nil && *err != nil {
		return *err
	}
	return errors.New("connected, but the runtime has sent no data yet")
}

// dialRuntime connects to the runtime. It compares the sockets at every attempt, because a link
// may be replaced while the shim runs.
func (s *Shim) dialRuntime(ctx context.Context, _ string) (conn net.Conn, err error) {
	defer func() { s.dialed.set(err) }()
	path := strings.TrimPrefix(s.Runtime, "unix://")
	if err := CheckEndpoints(s.Listener.Addr().String(), path); err != nil {
		return nil, err
	}
	return new(net.Dialer).DialContext(ctx, "unix", path)
}

// watchRuntime keeps the metric of the connection up to date until ctx ends. While the runtime
// is unreachable it logs the reason once a minute.
func (s *Shim) watchRuntime(ctx context.Context, conn *grpc.ClientConn) {
	log := s.log()
	var logged time.Time
	down := false // was logged
	for {
		state := conn.GetState()
		if state == connectivity.Idle {
			conn.Connect() // a wrong endpoint is logged before the first call
		}
		s.Metrics.setConnected(state == connectivity.Ready)
		switch {
		case state == connectivity.TransientFailure && time.Since(logged) >= logInterval:
			log.Warn("container runtime unreachable, CRI calls fail", "endpoint", s.Runtime, "error", s.dialed.get())
			logged, down = time.Now(), true
		case state == connectivity.Ready && down:
			log.Info("container runtime connected", "endpoint", s.Runtime)
			down = false
		}
		changed, cancel := context.WithTimeout(ctx, logInterval) // an unreachable runtime stays in one state
		conn.WaitForStateChange(changed, state)
		cancel()
		if ctx.Err() != nil {
			s.Metrics.setConnected(false)
			return
		}
	}
}
