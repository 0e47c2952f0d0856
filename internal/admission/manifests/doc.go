// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifests writes the objects that run and register the admission webhook in a
// cluster. Its files are plain manifests, which kustomize can use too; the package sets the
// values of a cluster in them.
package manifests
