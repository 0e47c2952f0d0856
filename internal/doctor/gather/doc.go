// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package gather reads from the API server what package doctor checks, and the replies of the DNS
// servers of the cluster, which it queries over UDP and TCP.
//
// It only gets and lists, page by page and up to a number of objects, so that it can be run
// against a large cluster in the middle of an incident. A kind that it may not read is
// recorded in the snapshot; the others are read nevertheless. What needs more is off unless the
// user allows it: reading the kubelets, forwarded ports, and an ephemeral container, the only change of
// the cluster.
package gather
