// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package spelling finds the word that a misspelled one was meant to be, for the reader of
// manifests.
package spelling
