// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package statuspage is the page on which a person reads the state of a server: whether it is
// ready, what it does, and its last problems.
//
// The page is made of the server's metrics, so that it shows what the monitoring shows, and a
// new metric is on it without a change here. It is one document without scripts and without
// other files: it can be read with curl, saved and sent.
//
// The markup is written directly: package html/template reaches methods by reflection, and the
// linker would keep every method of every type in the binary, several megabytes.
package statuspage
