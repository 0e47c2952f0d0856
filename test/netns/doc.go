// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package netns runs tests in network namespaces. A socket belongs to the namespace of the
// thread that opens it, and goroutines change threads. Therefore a test of a server runs in a
// process of its own, all of whose threads are in a new namespace.
package netns
