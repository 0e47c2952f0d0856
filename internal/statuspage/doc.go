// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package statuspage is the page on which a person reads the state of a server: whether it is
// ready, what it does, and its last problems.
//
// The page is made of the server's metrics, so that it shows what the monitoring shows, and a
// new metric is on it without a change here. It is one document without scripts and without
// other files: it can be read with curl, saved and sent.
package statuspage
