// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package fqdn validates the names of a pod and represents domain names.
//
// [LabelProblems], [SubdomainProblems] and [DomainProblem] check labels, subdomains and
// search domains, and [CutHostname] truncates host names like the kubelet. [Name] is a domain
// name in canonical form, for comparison and as a map key.
//
// The package exists so that the policy engine, the resolv.conf readers and the DNS server
// share one set of limits. It imports value packages only.
//
// # Compatibility
//
// Within a major version no exported identifier is removed or changes its type, and no limit
// changes.
package fqdn
