// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package fault holds the cluster DNS server to its promises while the control plane
// dies, hangs, forgets and comes back: the program that people install, a real etcd and
// kube-apiserver, and clients that ask all the while.
//
// What a reply may say is not a question of time. An object has a sequence of states, as
// it was written; a server that is cut off knows an old one. A reply is right if it is
// what package spec says of one of the states,
//
//   - not a later one than was sent to the API server when the reply came,
//   - not an earlier one than a reply had shown when the question was asked,
//
// so that servers never go back, invent nothing, and call nothing absent that is there
// in every state. In the end the last state has to be reached. Types of objects are
// watched apart, so that the promise is for each object by itself.
package fault
