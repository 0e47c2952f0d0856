// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package client makes clients of the Kubernetes API that know few kinds.
//
// It exists because client-go's clientset knows all of them: whoever links it pays
// for every type of every API group, 12 MB of a binary and 8 MB of memory for a
// server that reads pods. Here the caller names the group and the types, and gets
// the REST client that is under the clientset, with the same kubeconfigs, credential
// plugins, content types and errors.
package client
