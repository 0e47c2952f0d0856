// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package dnsfaults has a healthy cluster and the faults that break its DNS, each as a
// change of manifests. Tests apply them to a snapshot and to a real cluster, so that both find the
// same.
package dnsfaults
