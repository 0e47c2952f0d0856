// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package upstream forwards queries to other DNS servers.
//
// It exists because forwarding crosses a network that loses packets and in which
// replies can be forged. A [Client] holds a set of servers that can be replaced while
// it runs:
//
//	Exchange --> one flight for equal queries --> order by health
//	                                                |
//	   loop detection excludes servers              +--> server: UDP, TCP after truncation
//	                                                +--> server: TLS
//
// A reply is accepted if it comes from the address and port of the server, arrives at
// the random port with the random ID of the query, and repeats the question. Other
// packets are ignored until the query times out, so that a forger gains nothing by
// being first (RFC 5452 section 9).
//
// The health of a server follows from queries. When a server is silent while a query
// waits, the next one is asked as well, and the first conclusive reply counts. A silent
// server, and one after two consecutive failures, is down: it is tried last, and the client
// probes it with exponential backoff until it replies. A search list that times out counts
// as a failure only if the server answered no other query meanwhile: with a domain whose
// own servers are dead, a healthy server needs long for it.
//
// # Goroutines
//
// The constructor starts no goroutine. [Client.Run] owns the connections over TCP and
// TLS and the probes, and waits for them. Each flight has a goroutine that ends with it,
// at the latest after Config.Timeout. Each try of several servers has one that ends soon
// after the flight.
package upstream
