// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodeaddr assigns the addresses of the node cache to an interface of the node, and
// watches them.
//
// Pods send queries to these addresses, which belong to no network card, and the server
// can listen on an address only once the node has it. [Interface.Ensure] assigns them to an
// interface of Linux's dummy driver. It is idempotent. [Interface.Watch] reports changes:
// network managers, operators and other agents remove addresses.
package nodeaddr
