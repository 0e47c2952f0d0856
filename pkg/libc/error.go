// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

// Error is what a library tells the program that called it, by the name that it
// has in <netdb.h>. The zero value is success.
type Error string

// The errors of getaddrinfo(3).
const (
	NoName     Error = "EAI_NONAME"
	NoData     Error = "EAI_NODATA" // glibc: the name is there, its addresses are not
	Again      Error = "EAI_AGAIN"
	Fail       Error = "EAI_FAIL"
	AddrFamily Error = "EAI_ADDRFAMILY" // glibc: an address, of another family
)

// The errors of res_search(3), as h_errno has them.
const (
	HostNotFound Error = "HOST_NOT_FOUND"
	TryAgain     Error = "TRY_AGAIN"
	NoRecovery   Error = "NO_RECOVERY"
	NoRecords    Error = "NO_DATA"
	Unsaid       Error = "NETDB_SUCCESS" // musl: it failed, and left h_errno as it was
)

// Died is no error that a program gets: it is its end. See Resolver.Dies in
// package resolvconf.
const Died Error = "killed"
