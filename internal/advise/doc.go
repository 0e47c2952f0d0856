// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package advise finds what workloads waste on DNS, and the change that saves it.
//
// DNS servers count the queries of each client address (dnsserver.ClientReport). The pods of the cluster say which
// workload an address belongs to. The package joins both, and has no input and output of its own.
package advise
