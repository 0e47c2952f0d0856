// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"net/netip"
	"os"
	"path/filepath"
)

// stubFile is the file that sends a host's programs to systemd-resolved. It lies
// beside the uplink file (systemd-resolved.service(8), "/etc/resolv.conf").
const stubFile = "stub-resolv.conf"

// isStub tells whether r is the stub of systemd-resolved. A nameserver that stands
// beside those of the stub makes the file usable without them, and is no stub then.
func isStub(r reading, uplinkPath string) bool {
	if r.stamp.info == nil {
		return false
	}
	info, err := os.Stat(filepath.Join(filepath.Dir(uplinkPath), stubFile))
	if err == nil && os.SameFile(info, r.stamp.info) {
		return true
	}
	for _, e := range r.file.Nameservers {
		if e.Text != "127.0.0.53" && e.Text != "127.0.0.54" { // the second is for proxies (DNSStubListener=)
			return false
		}
	}
	return len(r.file.Nameservers) > 0
}

// loopback tells whether a nameserver is the host on which it is asked. Linux sends
// what goes to the unspecified address to itself as well.
func loopback(nameserver string) bool {
	a, err := netip.ParseAddr(nameserver)
	a = a.Unmap()
	return err == nil && (a.IsLoopback() || a.IsUnspecified())
}
