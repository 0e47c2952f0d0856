// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

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

// Notifier notifies the service manager of the state of this process. The zero value
// notifies nothing.
type Notifier struct {
	send     func(state string) error // nil without a service manager
	watchdog time.Duration            // the watchdog timeout; 0: no watchdog
}

// NewNotifier returns a Notifier for the service manager that the environment names. It
// removes the variables from the environment, so that child processes do not notify.
func NewNotifier() (Notifier, error) {
	address, usec, pid := takeVariable("NOTIFY_SOCKET"), takeVariable("WATCHDOG_USEC"), takeVariable("WATCHDOG_PID")
	if address == "" {
		return Notifier{}, nil
	}
	if !strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "@") { // @: abstract
		return Notifier{}, fmt.Errorf("NOTIFY_SOCKET %q: neither a path nor an abstract socket", address)
	}
	n := Notifier{send: func(state string) error { return send(address, state) }}
	if usec == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return n, nil
	}
	timeout, err := strconv.ParseInt(usec, 10, 64)
	n.watchdog = time.Duration(timeout) * time.Microsecond
	if err != nil || timeout <= 0 || n.watchdog/time.Microsecond != time.Duration(timeout) {
		return Notifier{}, fmt.Errorf("WATCHDOG_USEC %q: not a number of microseconds", usec)
	}
	return n, nil
}

// send sends one notification, which is one datagram.
func send(address, state string) error {
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte(state))
	return err
}

// Run calls alive and notifies the manager that the service is ready once alive has
// returned nil. It then calls alive at half the watchdog timeout and sends the watchdog
// notification each time alive returns nil in time; without them, the manager restarts the
// service. When ctx is done, Run notifies the manager that the service is stopping.
//
// Notifications are best effort: a failure is logged. The only error that Run returns is
// that of the first call of alive, unless ctx is done.
func (n Notifier) Run(ctx context.Context, alive func(context.Context) error, log *slog.Logger) error {
	if n.send == nil {
		return nil
	}
	notify := func(state string) {
		if err := n.send(state); err != nil {
			log.Warn("cannot notify systemd", "state", state, "error", err)
		}
	}
	defer notify("STOPPING=1")
	if err := alive(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("waiting for the service to start: %w", err)
	}
	notify("READY=1")
	var tick <-chan time.Time // never without a watchdog
	period := n.watchdog / 2  // recommended by sd_watchdog_enabled(3)
	if period > 0 {
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
		probe, cancel := context.WithTimeout(ctx, period)
		err := alive(probe)
		cancel()
		switch {
		case err == nil:
			notify("WATCHDOG=1")
		case ctx.Err() == nil:
			log.Error("liveness check failed, watchdog not notified", "error", err)
		}
	}
}

// firstSocket is the descriptor after the three standard ones (SD_LISTEN_FDS_START).
const firstSocket = 3

// Socket returns the socket that the service manager opened for this process, or nil if it
// opened none. The caller closes it. More than one socket is an error.
//
// Socket removes the variables of the protocol from the environment, so that child
// processes do not use the socket. A second call returns nil.
func Socket() (*os.File, error) {
	pid, count, names := takeVariable("LISTEN_PID"), takeVariable("LISTEN_FDS"), takeVariable("LISTEN_FDNAMES")
	if pid == "" || count == "" {
		return nil, nil
	}
	recipient, err := strconv.Atoi(pid)
	if err != nil {
		return nil, fmt.Errorf("LISTEN_PID %q: not a process ID", pid)
	}
	if recipient != os.Getpid() {
		return nil, nil
	}
	switch n, err := strconv.Atoi(count); {
	case err != nil || n < 0:
		return nil, fmt.Errorf("LISTEN_FDS %q: not a number of sockets", count)
	case n == 0:
		return nil, nil
	case n > 1:
		return nil, fmt.Errorf("got %d sockets (%s) from the service manager, want one: check "+
			"ListenStream= and Sockets= of the units", n, names)
	}
	return os.NewFile(firstSocket, names), nil
}

// takeVariable returns the value of an environment variable and removes the variable.
func takeVariable(name string) string {
	value := os.Getenv(name)
	_ = os.Unsetenv(name) // fails for invalid names only
	return value
}
