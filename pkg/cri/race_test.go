// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package cri

// lifecycles is lower than without the race detector, which makes each five times slower.
// make test also runs without it.
const lifecycles = 20_000
