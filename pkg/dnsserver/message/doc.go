// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package message parses replies of other servers.
//
// It exists because a reply that the library, github.com/miekg/dns, cannot parse must affect no
// other query, and because the library changes records: it completes RDATA that is too short,
// and drops what it does not know. [Unpack] passes RDATA on unchanged. RDATA that the library
// does not parse, or does not pack to the same octets, becomes a [dns.RFC3597] record.
//
// RDATA of the types that may have compressed names is the exception, because a compressed
// name means nothing outside of its message. It is parsed, or the message is malformed.
package message
