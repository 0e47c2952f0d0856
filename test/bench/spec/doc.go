// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package spec is what a cluster DNS server has to answer, written to be read and
// believed, not to be fast: all records of a cluster as a list (records.go), and one way
// to look a name up in it (answer.go). It shares no code with the server.
//
// The records are those of the Kubernetes DNS-Based Service Discovery Specification
// 1.1.0, and of what clusters have beyond it and rely on:
//
//   - names and reverse names of the endpoints of a Service with a cluster IP
//   - SRV records of named ports at the Service's own name
//   - names of pods by their addresses
//   - NS records of the zone that name the Service of the server itself
//
// Names are looked up as RFC 1034, 2308, 6604 and 8020 say: a name has one response code
// whatever the type, and it exists if a name below it does.
package spec
