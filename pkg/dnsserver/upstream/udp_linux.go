// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// setPathMTU makes the kernel ignore path MTUs from ICMP messages, which an attacker can forge to
// have queries fragmented (RFC 9715 section 3.1). It is the Control of a [net.Dialer].
func setPathMTU(network, _ string, c syscall.RawConn) error {
	var result error
	err := c.Control(func(fd uintptr) {
		if network == "udp4" {
			result = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_OMIT)
		} else {
			result = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_OMIT)
		}
	})
	if err != nil {
		return err
	}
	return result
}
