// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package kube turns Kubernetes objects into what the policy engine decides on.
//
// It is where the engine and the API meet: the engine knows no API types, and
// nobody else reads a pod's spec. It knows how pods come to be from manifests: the
// API's defaults, the templates of workloads, the names that controllers generate,
// and what the kubelet makes of a static pod.
package kube
