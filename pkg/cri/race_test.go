// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package cri

// lifecycles are fewer with the race detector, which makes them five times as slow;
// make test runs all of them without it.
const lifecycles = 20_000
