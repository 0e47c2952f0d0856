// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package arch tests the structure and the words of the repository: the imports of each
// package, package comments, names and sizes of files, forbidden phrases, the glossary,
// and the promised API, which changes only on purpose.
package arch
