// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// dial connects to an IP address and port of the machine's network.
func (m *machine) dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = m.inside(func() (err error) {
		c, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// inside calls f in the machine's network.
func (m *machine) inside(f func() error) error {
	return m.inNetwork(fmt.Sprintf("/proc/%d/ns/net", m.init.Process.Pid), f)
}

// inNetwork calls f in the network of a file.
func (m *machine) inNetwork(path string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		// A socket belongs to the network of the thread that created it. This thread
		// stays there and ends with its goroutine, because it is never unlocked.
		runtime.LockOSThread()
		if err := enterNetwork(path); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// enterNetwork moves the thread into a network.
func enterNetwork(path string) error {
	ns, err := os.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering the machine's network: %w", err)
	}
	return nil
}
