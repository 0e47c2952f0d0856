// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package apiserver runs a real Kubernetes API for tests: etcd and kube-apiserver, which
// can be killed and started again with what they know. It exists for what the
// in-memory server of package kubeapi does not do: validation, defaults, admission, and what
// clients see of a control plane that is killed.
//
// There are no controllers: EndpointSlices are not created, and a namespace that is deleted
// stays. Both listen on a loopback address of their own, and end with the test.
//
// etcd is Debian's, installed when it is missing. kube-apiserver and kubectl are built from
// the module test/cluster, so that the main module does not need Kubernetes; Go keeps them
// in its build cache.
package apiserver
