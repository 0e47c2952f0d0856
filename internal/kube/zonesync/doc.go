// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package zonesync keeps the name tree of a cluster in sync with the API server, or with
// manifests in directories.
//
// It exists so that the cluster DNS server needs no API types and internal/kube no DNS
// names. The zone is the only store: an object is reduced to the fields that DNS needs as
// soon as it is decoded. One goroutine writes the zone, and applies all events that are
// waiting in one edit.
//
// # Before and without the API server
//
// The zone is loaded when a complete list of every resource has arrived, and not before.
// It keeps its names while the API server is unreachable. A server that starts without the
// API server reads the snapshot that an earlier process wrote (pkg/dnsserver/snapshot), and
// marks the zone as stale; each resource is then replaced as a whole when its first list is
// complete, so that no name is missing in between.
//
// # Invalid objects
//
// Objects and parts of objects that cannot have a name, such as labels of more than 63
// bytes or malformed addresses, are left out and logged. The API server rejects all of
// them; manifests may contain them.
package zonesync
