// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package policy decides which DNS configuration and host name a pod gets.
//
// An [Engine] is made once for a node and then turns each [Pod] and the host's
// resolv.conf into a [Decision]: the lists of the pod's resolv.conf, its host
// name, and the record of how they came about. The result is the kubelet's, to
// the byte of its event texts; docs/divergences.md lists the few inputs for which
// it is not, and docs/rules.md the rules by the identifiers that [Rule] prints.
//
// The package is pure. It reads no files and no clock, logs nothing, and keeps no
// state between calls: the same input gives the same Decision, byte for byte.
// Nothing is an error after [New] has accepted the node: a pod that cannot start
// gets a Decision that says so.
//
// # Compatibility
//
// Within a major version no exported identifier is removed or changes its type,
// and no Code, no limit and no text of a Rule changes its value; the numbers behind
// Rule, Kind and Origin may. New fields, codes and rules may come: compose struct
// literals with field names, and expect codes that you do not know. A Decision follows the kubelet's newest release; where a
// release changes an answer, the changelog says so.
package policy
