// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifest reads the files in which Kubernetes objects are written down, and
// watches directories of them.
//
// It exists because commands and servers read the same files, and because internal/kube
// parses manifests without touching the file system.
package manifest
