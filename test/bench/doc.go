// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package bench compares the cluster DNS server with CoreDNS: what they answer, and what
// an answer costs.
//
// It is a module of its own because it builds CoreDNS: the product's go.mod stays small.
// Package world makes clusters and questions, package spec says what the answers have to
// be, and package deviation for which questions CoreDNS is known to answer otherwise. The
// test here has all three agree on tens of thousands of questions. Package fault asks
// while the control plane is in trouble.
package bench
