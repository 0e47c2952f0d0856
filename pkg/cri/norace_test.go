// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package cri

// lifecycles is the number of sandboxes of TestShim_Leaks.
const lifecycles = 100_000
