// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package zonesync keeps the name tree of a cluster up to date: with what the API
// server says, or with manifests in directories.
//
// It exists so that the cluster DNS server knows no API types, and internal/kube no names.
// The zone is the only store: an object is cut down to what DNS wants of it as soon as
// it is decoded, and goes into the tree. One goroutine writes the zone; what arrives
// together is applied together.
//
// # Ignorance
//
// The zone is Loaded when every type of object has had a complete list, and never
// before. What it knows it keeps while the API server is gone. A server that starts
// without an API server takes the file that an earlier one left (pkg/dnsserver/snapshot),
// and the zone says that it is stale; each type of object is then replaced as a whole
// when its first list is complete, without a gap.
//
// # Left out
//
// What cannot have a name, as labels of more than 63 bytes or hosts that are no
// addresses, is left out and reported. The API server lets none of it through;
// manifests may carry it.
package zonesync
