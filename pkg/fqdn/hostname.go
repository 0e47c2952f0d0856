// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fqdn

import "strings"

// Limits of host names, in bytes.
const (
	// MaxHostname is the length of the longest short host name of a pod. The kubelet
	// truncates a longer one.
	MaxHostname = 63

	// MaxNodename is the length of the longest host name in the kernel (__NEW_UTS_LEN in
	// linux/utsname.h). The kubelet refuses a pod with setHostnameAsFQDN whose FQDN is
	// longer.
	MaxNodename = 64
)

// CutHostname truncates name to MaxHostname bytes like the kubelet, which also removes '-' and
// '.' from the new end. It returns a name that is short enough unchanged, and "" if nothing
// remains.
func CutHostname(name string) string {
	if len(name) <= MaxHostname {
		return name
	}
	return strings.TrimRight(name[:MaxHostname], "-.")
}
