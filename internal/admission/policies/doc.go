// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package policies writes the admission policies with the values of a cluster, and checks
// whether a cluster enforces them.
//
// Its template is the only source of the policies; deploy/admission holds a rendering of it.
package policies
