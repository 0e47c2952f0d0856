// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package kube reads manifests, and converts Kubernetes objects to the input of the policy engine.
//
// The engine has no API types, and no other package reads a pod's spec. This package
// implements how pods follow from manifests: the API's defaults, the templates of
// workloads, the names that controllers generate, and the kubelet's changes to a static
// pod. [Input] and [Watcher] find the files of manifests; the rest does not touch the file system.
package kube
