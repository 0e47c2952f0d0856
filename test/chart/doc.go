// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package chart tests the Helm chart with helm: the manifests that it renders, its schema,
// and that the servers accept the configurations in it.
package chart
