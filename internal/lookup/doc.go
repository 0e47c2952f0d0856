// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package lookup simulates the DNS lookup of a program in a pod. It computes the pod's
// resolv.conf, sends the queries of the pod's C library (package libc), and writes each
// query with its reply, the result of the program and the number of queries.
//
// The cluster DNS is package dnsserver itself, running in the process with the names of
// manifests:
//
//	pod, node --policy--> resolv.conf --libc--> queries --> cluster DNS of the manifests --> upstream servers, if any
//	                                               `------> one server instead of all nameservers
//
// A lookup sends queries only to servers that were set. A name outside the cluster is
// therefore usually not asked for. The library receives NXDOMAIN and continues the search;
// the result states which names it depends on.
//
// The objects come from manifests, or from the API server of a live cluster.
package lookup
