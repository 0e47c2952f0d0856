// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package spec holds the correct replies of a cluster DNS server. It is written to be
// verified by reading, not to be fast: all records of a cluster as a list (records.go)
// and one lookup in it (answer.go). It shares no code with the server.
//
// The records are those of the Kubernetes DNS-Based Service Discovery Specification
// 1.1.0, and those that clusters have in addition and rely on:
//
//   - names and reverse names of the endpoints of a Service with a cluster IP
//   - SRV records of named ports at the Service's own name
//   - names of pods by their addresses
//   - NS records of the zone that name the Service of the server itself
//
// Lookups follow RFC 1034, 2308, 6604 and 8020: a name has one response code for all
// types, and it exists if a name below it exists.
package spec
