// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package dnstest runs DNS servers for tests: on loopback or on sockets of the test,
// over UDP and TCP, with replies that a function makes. It exists because correct
// servers are easy to get from miekg/dns, and tests of a resolver also need late, wrong
// and malformed replies.
package dnstest
