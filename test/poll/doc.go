// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package poll waits in tests for a change that is made without notice, such as that of a metric
// or of a file. All waits have one long limit: it is reached only if a test fails, and a short one
// would also be reached on a busy machine.
package poll
