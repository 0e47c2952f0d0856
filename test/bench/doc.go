// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package bench compares the cluster DNS server with CoreDNS: the replies, and the cost
// of a reply.
//
// It is a separate module because it builds CoreDNS: the product's go.mod stays small.
// Package world generates clusters and questions, package spec has the right replies,
// and package deviation the questions for which CoreDNS is known to reply differently.
// The test here compares all three on tens of thousands of questions. Package fault
// sends queries while the control plane fails.
package bench
