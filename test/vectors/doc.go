// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package vectors is the specification of what is admitted: objects, what is found in
// them, and what each point that enforces something does about it. One table drives
// the rules in Go, the commands and servers that use them, the API server's own
// validation and the kubelet.
//
// vectors.yaml begins with how to read it.
package vectors
