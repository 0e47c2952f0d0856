// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// Loopback is Free for a test.
func Loopback(t testing.TB, n int) []string {
	t.Helper()
	return must.Get(Free(n))(t)
}

// Free returns n free addresses of the loopback interface, for TCP and UDP. Their host and ports
// are not those of other tests or of outgoing connections, so that a restarted server finds its
// port free. Only Linux has more than one host.
func Free(n int) (free []string, last error) {
	host := "127.0.0.1"
	if runtime.GOOS == "linux" {
		host = net.IPv4(127, byte(1+mathrand.IntN(254)), byte(mathrand.IntN(256)), byte(1+mathrand.IntN(254))).String()
	}
	for range 100 {
		// Below the ports that the kernel assigns to clients (ip_local_port_range in
		// ip(7)).
		address := net.JoinHostPort(host, strconv.Itoa(10_000+mathrand.IntN(20_000)))
		if last = isFree(address); last == nil && !slices.Contains(free, address) {
			free = append(free, address)
		}
		if len(free) == n {
			return free, nil
		}
	}
	return nil, fmt.Errorf("no port of %s is free: %w", host, last)
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
