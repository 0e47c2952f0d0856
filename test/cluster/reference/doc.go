// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package reference asks a real kubelet what a pod's DNS and host name are.
//
// It links the kubelet and calls the code that makes a sandbox's configuration, in
// its order: the host's file is a file, events come out of the kubelet's own
// recorder calls, and static pods go through its manifest directory. Nothing here
// knows a rule, so nothing here can share a mistake with pkg/policy.
package reference
