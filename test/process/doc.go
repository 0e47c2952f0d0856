// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package process runs servers for tests in their own processes, which can be killed and
// restarted.
package process
