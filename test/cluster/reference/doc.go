// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package reference returns a real kubelet's DNS and hostname for a pod.
//
// It links the kubelet and calls the code that configures a sandbox, in its order: the
// host file is a file, events come from the kubelet's own recorder calls, and static
// pods go through its manifest directory. The package contains no rule, so it cannot
// share an error with pkg/policy.
package reference
