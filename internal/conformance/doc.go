// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package conformance queries any cluster DNS server for what the Kubernetes DNS-Based Service Discovery
// Specification 1.1.0, RFC 8906 and the C libraries require. It exists so that a server can be compared with its
// specification in the cluster where it runs, and not only in its own tests.
//
// The expected records are computed from the objects of the cluster (records.go), without code of the server. Each
// requirement is a row of a table: rules.go has those of names, probes.go those of messages.
package conformance
