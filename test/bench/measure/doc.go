// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package measure says what a DNS server costs: processor time for each answered query
// under dnsperf, memory, and how late its answers are.
package measure
