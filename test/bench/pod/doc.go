// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package pod plays pods that look names up under load: by the queries that glibc sends
// with a pod's resolv.conf, at a fixed rate, from a pod's address. What dnsperf sends are
// queries, whatever the answers are; here a search ends at the first that is found.
package pod
