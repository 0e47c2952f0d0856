// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeapi is an in-memory Kubernetes API server for tests: get, list and watch
// over HTTP, of objects that a test applies. It exists so that programs that watch a
// cluster, including those that dnsconfigurer is compared with, can be run against the
// same cluster without etcd and kube-apiserver, up to 100,000 endpoints, and so that a
// test can make the API server fail: refuse requests, stall, cut watches, expire resource
// versions.
//
// It supports JSON and protobuf, streaming lists (sendInitialEvents), bookmarks, label
// and field selectors, and 410 Gone for a watch from a version that is no longer in its
// log. It does not validate objects, and every client is authorized.
//
// [Server.Start] serves on a socket; [Transport] serves without one, for tests in a
// synctest bubble.
package kubeapi
