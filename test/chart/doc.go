// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package chart tests the Helm chart with helm: the manifests that it renders, its schema,
// and that the servers accept the configurations in it. A real API server validates the objects,
// and the chart is installed, upgraded, rolled back and uninstalled there. There are no
// controllers, so that no pod runs: test/e2e has pods.
package chart
