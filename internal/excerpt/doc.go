// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package excerpt prepares texts for log lines, events and messages. It shortens texts and lists,
// because the author of a pod controls their size: the API server accepts a pod with 200,000 resolver
// options, and an option of three megabytes. It takes joined errors apart, so that each problem has a
// line of its own, and finds the word that a misspelled one was meant to be.
package excerpt
