// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package excerpt shortens texts and lists for log lines, events and messages. The author of
// a pod controls their size: the API server accepts a pod with 200,000 resolver options, and
// an option of three megabytes.
package excerpt
