// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package must ends a test at an error that it does not expect.
package must
