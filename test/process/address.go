// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	mathrand "math/rand/v2"
	"net"
	"slices"
	"strconv"
	"testing"
)

// Loopback returns n addresses of this machine with a port that nobody has, over TCP or
// UDP. They are not those of other tests, nor of connections to the outside, so that a
// server finds its port free when it comes back.
func Loopback(t testing.TB, n int) []string {
	t.Helper()
	host := net.IPv4(127, byte(1+mathrand.IntN(254)), byte(mathrand.IntN(256)), byte(1+mathrand.IntN(254))).String()
	var free []string
	var last error
	for range 100 {
		// Below the ports that the kernel gives to clients (ip(7), ip_local_port_range).
		address := net.JoinHostPort(host, strconv.Itoa(10_000+mathrand.IntN(20_000)))
		if last = isFree(address); last == nil && !slices.Contains(free, address) {
			free = append(free, address)
		}
		if len(free) == n {
			return free
		}
	}
	t.Fatalf("no port of %s is free: %v", host, last)
	return nil
}

func isFree(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	p, err := net.ListenPacket("udp", address)
	if err == nil {
		err = p.Close()
	}
	return errors.Join(err, l.Close())
}
