// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package live reads the objects of a cluster that a simulated lookup needs. It is separate from
// package lookup because that one has no client of the API server.
package live
