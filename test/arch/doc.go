// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package arch is where the repository tests itself: who may import whom, that
// every package says why it exists, that names and files keep to the rules of
// CONTRIBUTING.md, and that the public interface of pkg/policy changes only on
// purpose.
package arch
