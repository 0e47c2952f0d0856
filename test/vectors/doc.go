// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package vectors is the specification of the admission rules: objects, the findings in them,
// and the reaction of each component that enforces rules. One table is used to test the rules
// in Go, the commands and servers based on them, the API server's validation and the kubelet.
//
// The comment at the top of vectors.yaml explains its fields.
package vectors
