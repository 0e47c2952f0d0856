// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package cases holds the questions of the differential test: what a kubelet may
// be asked about a pod's DNS and host name, what it answers, how our own engine's
// answer differs, and for which inputs it may.
//
// It is apart from package reference so that it does not link the kubelet: the
// replay program is built once for each mutant of our engine, and must be built in
// seconds.
package cases
