// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"net/netip"
	"os"
	"path/filepath"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// stubFile is the file that makes a host use the stub resolver of systemd-resolved. It is in
// the directory of the uplink file (systemd-resolved.service(8), "/etc/resolv.conf").
const stubFile = "stub-resolv.conf"

// isStub reports whether r is the stub file of systemd-resolved, or a file that names the
// stub's addresses only. With another nameserver in it, a file is usable without the stub.
func isStub(r reading, uplinkPath string) bool {
	if r.state.info == nil {
		return false
	}
	info, err := os.Stat(filepath.Join(filepath.Dir(uplinkPath), stubFile))
	if err == nil && os.SameFile(info, r.state.info) {
		return true
	}
	for _, e := range r.file.Nameservers {
		if e.Text != "127.0.0.53" && e.Text != "127.0.0.54" { // the second is for proxies (DNSStubListener=)
			return false
		}
	}
	return len(r.file.Nameservers) > 0
}

// isLoopbackOnly reports whether f has nameservers, all on the loopback.
func isLoopbackOnly(f resolvconf.File) bool {
	for _, e := range f.Nameservers {
		if !isLoopback(e.Text) {
			return false
		}
	}
	return len(f.Nameservers) > 0
}

// isLoopback reports whether nameserver is an address of the local host. Linux also sends
// packets for the unspecified address to itself.
func isLoopback(nameserver string) bool {
	a, err := netip.ParseAddr(nameserver)
	a = a.Unmap()
	return err == nil && (a.IsLoopback() || a.IsUnspecified())
}
