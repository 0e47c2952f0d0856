// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// Result is what a program receives, and the queries sent for it.
type Result struct {
	Queries   []Query      // in the order sent; of those sent together, A is before AAAA
	Addresses []netip.Addr // of getaddrinfo, in the order of the answers
	Answers   []dns.RR     // of res_search: the answer section
	Error     Error        // "": found
	Took      time.Duration
}

// Error is the error that a program receives, by its name in <netdb.h> or in Go's package
// net. The zero value is success.
type Error string

// The errors of getaddrinfo(3).
const (
	NoName     Error = "EAI_NONAME"
	NoData     Error = "EAI_NODATA" // glibc, musl: the name exists and has no address
	Again      Error = "EAI_AGAIN"
	AddrFamily Error = "EAI_ADDRFAMILY" // glibc: the name is an address of another family
)

// The errors of res_search(3), as h_errno has them.
const (
	HostNotFound Error = "HOST_NOT_FOUND"
	TryAgain     Error = "TRY_AGAIN"
	NoRecovery   Error = "NO_RECOVERY"
	NoRecords    Error = "NO_DATA"
	NetDBSuccess Error = "NETDB_SUCCESS" // musl: failed without setting h_errno
)

// The errors of Go, each in a *net.DNSError except GoNoSuitableAddress.
const (
	GoNoSuchHost        Error = "errNoSuchHost"                   // IsNotFound is set
	GoTimeout           Error = "errTimeout"                      // IsTimeout and IsTemporary are set
	GoTemporary         Error = "errServerTemporarilyMisbehaving" // SERVFAIL; IsTemporary is set
	GoMisbehaving       Error = "errServerMisbehaving"            // another rcode
	GoLame              Error = "errLameReferral"
	GoUnreachable       Error = "ECONNREFUSED" // IsTemporary is set
	GoCannotMarshal     Error = "errCannotMarshalDNSMessage"
	GoCannotUnmarshal   Error = "errCannotUnmarshalDNSMessage"
	GoNoSuitableAddress Error = "errNoSuitableAddress" // there are only addresses of the other family
	GoUnsupported       Error = "unsupported"          // package net has no function for the record type
)

// Crashed is not an error that a program receives: the lookup ends the process. See
// Resolver.Crashes in package resolvconf.
const Crashed Error = "killed"

// texts are the texts of gai_strerror(3), hstrerror(3) and net.DNSError, which applications
// log.
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
		Crashed:      "the first lookup crashes the process",
	},
	Musl: {
		NoName:       "Name does not resolve",
		NoData:       "Name has no usable address",
		Again:        "Try again",
		HostNotFound: "Host not found",
		TryAgain:     "Try again",
		NoRecords:    "Address not available",
		NetDBSuccess: "Unknown error",
		Crashed:      "the first lookup crashes the process",
	},
	Go: {
		GoNoSuchHost:        "no such host",
		GoTimeout:           "i/o timeout",
		GoTemporary:         "server misbehaving",
		GoMisbehaving:       "server misbehaving",
		GoLame:              "lame referral",
		GoUnreachable:       "connection refused",
		GoCannotMarshal:     "cannot marshal DNS message",
		GoCannotUnmarshal:   "cannot unmarshal DNS message",
		GoNoSuitableAddress: "no suitable address found",
		GoUnsupported:       "package net has no lookup of this record type",
	},
}

// Text returns the library's text for an error, "" for an error that the library does
// not have.
func (l Library) Text(e Error) string {
	if l == Musl123 && e != NoData {
		l = Musl
	}
	return texts[l][e]
}
