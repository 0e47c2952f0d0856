// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package hostile tests that hostile clients do not take the service from the others: a
// well-behaved client sends queries beside each of the attacks in results.md, to the
// cluster DNS server and to a node cache in front of it, each in its own process.
//
//	well-behaved client -->                                          an upstream server with
//	hostile client      --> nodecache --> dns --> upstream server:   silent, slow and broken
//	                        or dns                                   domains
//
// The clients have different addresses of 127.0.0.0/8. All share the processors: an attack has
// a fixed rate, so that the result is about shares of the server and not about the speed of
// the generator. The suite asserts results and never times: `make test-hostile` prints these.
//
// The same clients send legitimate load to these servers and to CoreDNS: limits that protect from hostile
// clients do not refuse it (`make test-load`).
//
// What only time and numbers show is tested with random names and packets, which get the right reply while
// the resident memory stays below a ceiling (`make test-soak`, which takes ten minutes).
package hostile
