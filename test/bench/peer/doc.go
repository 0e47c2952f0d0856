// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package peer builds and runs the DNS servers that are compared: CoreDNS, dnsconfigurer
// and others.
package peer
