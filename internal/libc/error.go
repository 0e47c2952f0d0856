// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

// Error is what a library tells the program that called it, by its name in
// <netdb.h>. The zero value is success.
type Error string

// The errors of getaddrinfo(3).
const (
	NoName     Error = "EAI_NONAME"
	NoData     Error = "EAI_NODATA" // glibc: the name is there, its addresses are not
	Again      Error = "EAI_AGAIN"
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

// texts are those of gai_strerror(3) and hstrerror(3), which people find in their
// logs.
var texts = map[Library]map[Error]string{
	Glibc: {
		NoName:       "Name or service not known",
		NoData:       "No address associated with hostname",
		Again:        "Temporary failure in name resolution",
		AddrFamily:   "Address family for hostname not supported",
		HostNotFound: "Unknown host",
		TryAgain:     "Host name lookup failure",
		NoRecovery:   "Unknown server error",
		NoRecords:    "No address associated with name",
		Died:         "the first lookup is the end of the process",
	},
	Musl: {
		NoName:       "Name does not resolve",
		Again:        "Try again",
		HostNotFound: "Host not found",
		TryAgain:     "Try again",
		NoRecords:    "Address not available",
		Unsaid:       "Unknown error",
		Died:         "the first lookup is the end of the process",
	},
}

// Text returns the words of a library for an error, "" for one that it does not
// have.
func (l Library) Text(e Error) string { return texts[l][e] }
