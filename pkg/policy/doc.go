// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package policy decides the DNS configuration and the host name of a pod.
//
// An [Engine] is created once for a node. From a [Pod] and the host's resolv.conf it makes a
// [Decision]: the entries of the pod's resolv.conf, its host name, and the reason for each.
// The result is the same as the kubelet's, including the texts of its events. docs/checks.md
// describes the rules by their identifiers ([Rule.String]), and docs/compatibility.md lists
// the few inputs for which the result differs.
//
// The package is pure: it reads no files and no clock, logs nothing and keeps no state, so
// the same input gives the same Decision. Only [New] returns an error. A pod that cannot
// start gets a Decision that says so.
//
// # Compatibility
//
// Within a major version no exported identifier is removed or changes its type, and no
// [Code], no limit and no identifier of a [Rule] changes. The texts of findings and rules,
// and the numbers behind Rule, [Kind] and [Origin], may change. New fields, codes and rules
// may be added: use field names in composite literals and handle unknown codes.
//
// A Decision follows the newest release of the kubelet. If a release changes a result, the
// changelog says so.
package policy
