// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package peer builds and runs the cluster DNS servers that are compared: CoreDNS and dnsconfigurer.
package peer
