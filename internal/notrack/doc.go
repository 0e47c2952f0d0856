// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package notrack keeps connection tracking away from the DNS queries to an address of the
// node, so that no proxy translates them to another server.
//
// kube-proxy translates the address of a Service in the nat hooks of prerouting and output,
// before the kernel checks whether the address is local. The nat hooks skip a packet that is
// not tracked. [Install] writes nftables rules with the statement notrack, which run before
// connection tracking (priority raw). nftables rules and those of iptables, legacy or not,
// apply to the same packets, so it does not matter which of them kube-proxy uses.
//
// The kernel removes the rules with the process. Then kube-proxy translates the address
// again, and queries reach the cluster DNS.
package notrack
