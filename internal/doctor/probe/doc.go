// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package probe asks the DNS servers of a cluster the questions of package doctor, over UDP
// and TCP, and records each reply with its time.
package probe
