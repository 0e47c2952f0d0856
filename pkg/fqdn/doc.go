// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package fqdn holds what the names of a pod must look like: DNS labels,
// subdomains, host names and the fully qualified name that the kernel is given;
// and [Name], a domain name in the one form in which names are compared.
//
// It is a leaf so that the policy engine, the resolv.conf readers and the DNS
// server can share one set of limits. It imports value packages only.
package fqdn
