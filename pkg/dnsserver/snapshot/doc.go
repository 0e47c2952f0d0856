// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package snapshot keeps a zone in a file, for a server that starts while nobody can
// tell it what is in the cluster.
//
// A file is written beside its place, synced and renamed, so that there is a whole
// one at any time; its digest tells one that is not. It says of which cluster it is
// and from when, and a reader takes all of it or nothing: no answer is better than
// one of another cluster.
package snapshot
