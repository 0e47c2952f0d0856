// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package output writes decisions, findings and errors about pods: as text with hints, as
// the JSON of api/v1alpha1, and as annotations of a workflow. All commands report a
// problem in the same form:
//
//	dnsconfigurer: what failed: why
//	hint: what to do
package output
