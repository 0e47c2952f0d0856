// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package fault tests the cluster DNS server while the control plane is killed, hangs,
// loses its history and comes back: with the released program, a real etcd and
// kube-apiserver, and clients that send queries all the time.
//
// The correct reply does not depend on time. An object has a sequence of states, in the
// order in which they were written; a server without connection has an old one. A reply
// is right if it is the reply of package spec for one of the states that is
//
//   - not later than the last one sent to the API server when the reply arrived,
//   - not earlier than one in a reply that arrived before the query was sent.
//
// So servers never go back, never invent data, and never deny a name that exists in
// every state. At the end of a test they must reach the last state. Each resource has
// its own watch, so the rule holds for each object by itself.
package fault
