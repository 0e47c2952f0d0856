// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package world generates clusters: the objects for which a cluster DNS server serves the
// names, changes of them, and questions about them. The same seed gives the same world.
// Worlds contain the difficult cases of clusters: names that look like another part of
// the grammar, addresses that Services share, slices without a Service, names that point
// to each other.
package world
