// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package process runs servers for tests as they run elsewhere: as processes of their own,
// which can be killed and come back.
package process
