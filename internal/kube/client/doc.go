// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package client creates Kubernetes API clients for selected types.
//
// It exists because client-go's clientset knows all types: a program that links it pays
// for every type of every API group, 12 MB of its binary and 8 MB of memory for a server
// that reads pods. Here the caller names the group and the types, and gets the REST client
// on which the clientset is built, with the same kubeconfigs, credential plugins, content
// types and errors.
package client
