// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodenet gives the node cache its addresses, and keeps other programs from taking the queries
// to them.
//
// Pods send queries to these addresses, which belong to no network card, and the server can listen on
// an address only once the node has it. [Interface.Ensure] assigns them to an interface of Linux's dummy
// driver. It is idempotent. [Interface.Watch] reports changes: network managers, operators and other
// agents remove addresses.
//
// kube-proxy translates the address of a Service in the nat hooks of prerouting and output, before the
// kernel checks whether the address is local. The nat hooks skip a packet that is not tracked. [Install]
// writes nftables rules with the statement notrack, which run before connection tracking (priority raw).
// nftables rules and the rules of iptables, legacy or not, apply to the same packets, so it does not matter
// which of them kube-proxy uses. The kernel removes the rules with the process.
//
// A process that hangs keeps its rules. So a leased address is exempt only until [LeaseTime] after the last
// reply. Otherwise kube-proxy translates the address of a Service, and the rules of [SetFallback], which
// remain without the process, translate any other address to the pods of the cluster DNS.
package nodenet
