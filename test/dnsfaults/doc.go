// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package dnsfaults has a healthy cluster and the faults that break its DNS, each as a change of its
// objects, with the status that controllers and a kubelet give them.
package dnsfaults
