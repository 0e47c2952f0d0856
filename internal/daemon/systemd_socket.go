// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"os"
	"strconv"
)

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
