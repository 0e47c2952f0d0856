// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package corefile reads the configuration of CoreDNS, to look for mistakes in it.
//
// It is tolerant: it reads what CoreDNS would refuse, and reports the problem, because a
// refused Corefile is what one opens it for. It executes nothing, and follows imports only
// into the files that it is given.
package corefile
