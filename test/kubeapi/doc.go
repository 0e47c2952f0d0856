// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeapi is a Kubernetes API for tests: get, list and watch over HTTP, of
// objects that a test applies to a store in memory. It is there so that programs which
// watch a cluster, ours and those that we are compared with, see the very same cluster
// without etcd and an API server, also one of 100,000 endpoints; and so that a test can
// do to them what a real API server does on a bad day: refuse, stall, forget.
//
// It speaks JSON and protobuf, streaming lists (sendInitialEvents), bookmarks, label and
// field selectors, and answers 410 Gone to who asks for what it has forgotten. It does
// not validate, and it lets everybody in.
package kubeapi
