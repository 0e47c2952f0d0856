// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package logbuffer holds a log that a test reads while a server writes it.
package logbuffer
