// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package resolvconf reads and writes resolv.conf(5).
//
// Programs disagree about the meaning of this file: the kubelet, glibc, musl and Go each read
// it in their own way, and a pod's DNS depends on all of them. [Parse] reads it like the
// kubelet, which copies parts of the host's file to pods. [Glibc] and [Musl] read it like the C
// library in a container, [Go] like a program that uses none.
//
// The readers never fail. They return what the program uses, and which lines and values it
// ignores. The package opens no files and imports value packages only.
//
// # Compatibility
//
// Within a major version no exported identifier is removed or changes its type. New fields
// may be added: use field names in composite literals. The readers follow the newest release
// of the kubelet, and the releases of glibc, musl and Go that they name.
package resolvconf
