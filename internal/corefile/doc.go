// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package corefile reads Corefiles, knows which of them CoreDNS refuses, and converts them to the configuration of the
// cluster DNS server.
package corefile
