// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package world makes clusters: the objects that a cluster DNS server serves names for,
// changes to them, and questions about them. The same seed makes the same world. It is
// nasty where clusters are: names that look like another part of the grammar, addresses
// shared by services, slices that nobody owns, names that point at each other.
package world
