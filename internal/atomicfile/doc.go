// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package atomicfile replaces files, and reads files of limited size. A server that is killed, or a disk that is full,
// must leave the old snapshot or the old settings for the next start, never half of the new ones.
package atomicfile
