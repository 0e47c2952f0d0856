// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package forward decides where a DNS server forwards queries: to configured servers, to
// those of the host's resolv.conf as it changes, to stub domains, and from a node cache to
// the cluster DNS.
package forward
