// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package pod simulates pods that look up names under load: with the queries of glibc for
// a pod's resolv.conf, at a fixed rate, from a pod's address. dnsperf sends queries
// whatever the replies are; here a search ends at the first match.
package pod
