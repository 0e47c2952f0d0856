// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package soak tests what only time and numbers show: the cluster DNS server in its own
// process, with random queries and packets, and its resident memory below a ceiling.
//
//	random names   --> dnsconfigurer dns --> an upstream server with other replies for
//	random packets -->                       each name
//	known names    --> must have the right reply all the time
//
// TestRandomNames runs for -duration, TestRandomPackets sends -packets packets. The
// defaults take seconds; `make test-soak` takes ten minutes.
package soak
