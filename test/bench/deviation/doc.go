// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package deviation names the reasons for which CoreDNS does not answer as package spec
// says. Each is known from the cluster and the question alone, so that no difference is
// excused after the fact; docs/divergences.md says who is right, and why.
package deviation
