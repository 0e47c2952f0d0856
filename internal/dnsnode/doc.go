// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package dnsnode runs the DNS servers of the commands dns and nodecache: the cluster DNS server, and
// the DNS cache of a node, which shares its addresses with the instance that it replaces.
//
// Both forward queries to configured servers, to those of the host's resolv.conf as it changes, and to
// stub domains. The node cache forwards to the cluster DNS, too.
package dnsnode
