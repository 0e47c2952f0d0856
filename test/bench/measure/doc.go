// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package measure measures the cost of a DNS server: processor time for each answered
// query under dnsperf, memory, and the delay of replies.
package measure
