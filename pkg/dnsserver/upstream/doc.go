// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package upstream asks other DNS servers.
//
// It exists because what the cluster does not know has to come from somewhere, over
// a network that loses packets and in which others may lie. A [Client] stands before
// a set of servers that can be replaced while it works:
//
//	Exchange --> one flight for equal questions --> order by policy and health
//	                                                  |
//	   loop detection takes servers out               +--> server: UDP, if truncated TCP
//	                                                  +--> server: TLS
//
// A reply is believed when it comes from the address and port that were asked, to the
// random port and with the random ID of the query, and repeats its question. Others
// are passed over until the time is up: whoever sends a wrong reply first must not
// win by it (RFC 5452 section 9).
//
// Servers are judged by what they do with queries. One that fails twice in a row rests,
// longer each time, and the others go before it; when its rest is over one query tries
// it. If all rest, the one that is due first is asked. A search list that gets no answer
// in time counts only if nothing else got one either: with a domain whose own servers are
// dead it takes the best server long.
//
// # Who owns what
//
// The constructor starts no goroutine. [Client.Run] owns the readers of connections
// that are kept open and the probes of loop detection, and waits for them. Without it
// everything works, with a new connection for each query over TCP or TLS. Each flight
// has a goroutine, which ends with it, at the latest after Config.Timeout.
package upstream
