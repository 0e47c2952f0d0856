// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster compares pkg/policy with the kubelet's own code, in one process.
//
// It is a separate module because it links the kubelet: the product's go.mod stays
// small. Package reference calls the kubelet; package cases calls the engine and holds
// the inputs for which the two may differ. The tests here compare tens of thousands of
// cases, check that each rule is covered often enough, and that an error in the engine
// would be detected: each of a table of mutants must be caught. The findings of
// internal/admission are compared with the API server's validation, and word for word
// with the admission policies.
package cluster
