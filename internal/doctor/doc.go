// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package doctor finds what is wrong with the DNS of a cluster.
//
//	API server --gather--> Snapshot --Check--> findings, each with its evidence
//	DNS servers --probe--------^
//
// It exists for the moment at which DNS is broken and the cause may be anywhere: in a
// Service, in a NetworkPolicy, in a Corefile, on a node. The package is pure: it knows
// neither the API server nor a socket, so that each fault is a test with manifests. What
// could not be read is part of the Snapshot, and a check that needs it is reported as not
// checked, never as passed.
//
// It works with any cluster DNS: CoreDNS and the command dns.
//
// [Advise] finds what workloads waste on DNS: servers count the queries of each client address, and the pods of
// the cluster say which workload has the address.
//
// Its reader of Corefiles is tolerant: it reads what CoreDNS would refuse, and reports the problem, because
// such a file is what a user looks for. It follows imports only into the files that it is given.
package doctor
