// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package deviation holds the reasons for which CoreDNS does not reply as package spec
// does. Each depends on the cluster and the question only, so that no difference is
// excused afterwards; docs/compatibility.md says which reply is right, and why.
package deviation
