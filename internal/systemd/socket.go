// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"
	"os"
	"strconv"
)

// firstSocket follows the three standard descriptors (SD_LISTEN_FDS_START).
const firstSocket = 3

// Socket returns the socket that the service manager opened for this process, nil
// when it opened none. The caller closes it. More than one is an error: this process
// serves on one.
//
// The variables that say so are removed from the environment: the programs that we
// start are not meant. So a second call returns nil.
func Socket() (*os.File, error) {
	pid, count, names := take("LISTEN_PID"), take("LISTEN_FDS"), take("LISTEN_FDNAMES")
	if pid == "" || count == "" {
		return nil, nil
	}
	meant, err := strconv.Atoi(pid)
	if err != nil {
		return nil, fmt.Errorf("LISTEN_PID %q: not a process ID", pid)
	}
	if meant != os.Getpid() {
		return nil, nil
	}
	switch n, err := strconv.Atoi(count); {
	case err != nil || n < 0:
		return nil, fmt.Errorf("LISTEN_FDS %q: not a number of sockets", count)
	case n == 0:
		return nil, nil
	case n > 1:
		return nil, fmt.Errorf("the service manager hands over %d sockets (%s), want one: see ListenStream= and Sockets= of the units", n, names)
	}
	return os.NewFile(firstSocket, names), nil
}

// take returns the value of a variable and removes it.
func take(variable string) string {
	value := os.Getenv(variable)
	_ = os.Unsetenv(variable) // fails for names that are none
	return value
}
