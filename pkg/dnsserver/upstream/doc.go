// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package upstream forwards queries to other DNS servers, over a network that loses packets and in which replies can be
// forged. A [Client] holds a set of servers that can be replaced while it runs:
//
//	Exchange --> one exchange for equal queries --> order by health
//	                                                  |
//	   loop detection excludes servers                +--> server: UDP, TCP after truncation
//	                                                  +--> server: TLS
//
// A reply is accepted if it comes from the address and port of the server, arrives at the random port with the random ID
// of the query, and repeats the question. Other packets are ignored until the query times out, so that a forger gains
// nothing by being first (RFC 5452 section 9).
//
// The health of a server follows from queries. If a server sends no reply for 200 ms while a query waits, the query is
// sent to the next server as well, and the first conclusive reply counts. If it replies to others, a packet may be lost:
// the query is sent again after 500 ms. The silent server may be down, and a server is down after two consecutive
// failures: both are tried last, and the client probes them with exponential backoff until they reply. A search list
// that times out counts as a failure only if the server answered no other query meanwhile: a healthy server needs long
// for the list if the servers of one of its domains are dead.
//
// The constructor starts no goroutine. [Client.Run] owns the connections over TCP and TLS and the probes, and waits for
// them. Each exchange has a goroutine, which ends at the latest after Config.Timeout. Each attempt at one of several
// servers has a goroutine that ends soon after the exchange.
//
// [Unpack] parses replies. A reply that the library, github.com/miekg/dns, cannot parse must affect no other query, and the
// library changes records: it completes RDATA that is too short, and drops what it does not know. Unpack passes RDATA on
// unchanged: if the library does not parse it, or does not pack it to the same octets, it becomes a [dns.RFC3597] record.
// RDATA of the types that may have compressed names, which mean nothing outside of their message, is parsed, or the message
// is malformed.
package upstream
