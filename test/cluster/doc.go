// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster compares pkg/policy with the kubelet itself, in one process.
//
// It is a module of its own because it links the kubelet: the product's go.mod stays
// small. Package reference asks the real code, package cases asks ours and knows for
// which inputs the two may differ. The tests here put tens of thousands of cases to
// both, check that every rule was met often enough to mean something, and that a
// mistake in our engine would be seen: each of a table of mutants must be caught. What
// internal/admission says of an object is compared with the API server's validation too, and
// word for word with what the policies of deploy/admission say.
package cluster
