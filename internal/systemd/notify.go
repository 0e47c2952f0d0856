// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Notifier is a service manager that wants to hear how this process is. The zero
// value is none, and is told nothing.
type Notifier struct {
	send     func(state string) error // nil: there is none
	watchdog time.Duration            // it wants a sign of life so often; 0: never
}

// NewNotifier returns the manager that the environment names, and removes it from
// there: its news would not be about the programs that we start.
func NewNotifier() (Notifier, error) {
	address, usec, pid := take("NOTIFY_SOCKET"), take("WATCHDOG_USEC"), take("WATCHDOG_PID")
	if address == "" {
		return Notifier{}, nil
	}
	if !strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "@") { // @: abstract
		return Notifier{}, fmt.Errorf("NOTIFY_SOCKET %q: neither a path nor an abstract socket", address)
	}
	m := Notifier{send: func(state string) error { return send(address, state) }}
	if usec == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return m, nil
	}
	n, err := strconv.ParseInt(usec, 10, 64)
	if m.watchdog = time.Duration(n) * time.Microsecond; err != nil || n <= 0 || m.watchdog/time.Microsecond != time.Duration(n) {
		return Notifier{}, fmt.Errorf("WATCHDOG_USEC %q: not a number of microseconds", usec)
	}
	return m, nil
}

// send sends one datagram, which is one piece of news.
func send(address, state string) error {
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte(state))
	return err
}

// Run tells the manager that the service is ready once alive has returned nil, gives
// it the signs of life that it wants for as long as alive does, and says that the
// service is stopping when ctx ends. An alive that returns late or an error costs a
// sign of life; when enough are missing, the manager starts the service anew.
//
// A manager that cannot be told is logged: that is no reason to end. The error is
// that of the first call of alive, unless ctx ended it.
func (m Notifier) Run(ctx context.Context, alive func(context.Context) error, log *slog.Logger) error {
	if m.send == nil {
		return nil
	}
	tell := func(state string) {
		if err := m.send(state); err != nil {
			log.Warn("the service manager cannot be told", "state", state, "error", err)
		}
	}
	defer tell("STOPPING=1")
	if err := alive(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("becoming ready: %w", err)
	}
	tell("READY=1")
	if m.watchdog == 0 {
		<-ctx.Done()
		return nil
	}
	// Half of the time, as sd_watchdog_enabled(3) has it.
	period := m.watchdog / 2
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		probe, cancel := context.WithTimeout(ctx, period)
		err := alive(probe)
		cancel()
		switch {
		case err == nil:
			tell("WATCHDOG=1")
		case ctx.Err() == nil:
			log.Error("the service does not answer: no sign of life for the service manager", "error", err)
		}
	}
}
