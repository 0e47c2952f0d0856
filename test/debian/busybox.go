// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"path/filepath"
	"testing"
)

// busyBox builds BusyBox with the part of Alpine's configuration that looks up names.
const busyBox = `apt-get source --download-only busybox
tar -xjf busybox_*.orig.tar.bz2
cd busybox-*
make allnoconfig
for option in STATIC BUSYBOX LFS FEATURE_IPV6 NSLOOKUP FEATURE_NSLOOKUP_BIG PING FEATURE_FANCY_PING WGET; do
	sed -i "s/^# CONFIG_$option is not set/CONFIG_$option=y/" .config
done
yes '' | make oldconfig
make -j2 CC=musl-gcc HOSTCC=gcc
cp busybox ../root
cd ..`

// BusyBox returns the path of a static BusyBox with nslookup, ping and wget, linked with musl as in
// Alpine. Debian's is linked with glibc.
func BusyBox(t testing.TB) string {
	t.Helper()
	InstallPackages(t, "make", "bzip2", "gcc", "musl-tools")
	return filepath.Join(Download(t, "busybox-musl-1", "deb-src http://deb.debian.org/debian trixie main", busyBox), "busybox")
}
