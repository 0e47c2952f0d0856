// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fqdn

import "strings"

// Limits of host names, in bytes.
const (
	// MaxHostname is the longest short host name that the kubelet gives to a
	// pod; it cuts longer ones.
	MaxHostname = 63

	// MaxNodename is the longest name that the kernel's nodename field holds
	// (__NEW_UTS_LEN in linux/utsname.h). The kubelet refuses a pod whose FQDN
	// should become the host name and is longer.
	MaxNodename = 64
)

// CutHostname returns name cut to MaxHostname bytes, as the kubelet does it: a
// name that is cut also loses the '-' and '.' at its new end, one that fits is
// left alone. The result is "" when nothing but those remains.
func CutHostname(name string) string {
	if len(name) <= MaxHostname {
		return name
	}
	return strings.TrimRight(name[:MaxHostname], "-.")
}
