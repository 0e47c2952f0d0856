// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package soak looks at what only time and numbers show: the cluster DNS server as a
// process of its own, with queries that nothing prepared it for, and its resident memory
// below a figure with a name.
//
//	random names   --> dnsconfigurer dns --> an upstream server that answers each otherwise
//	random packets -->
//	what is known  -->  must be right all the time
//
// TestRandomNames asks for -duration, TestRandomPackets sends -packets. By themselves they
// take a look of seconds; `make test-soak` takes the ten minutes.
package soak
