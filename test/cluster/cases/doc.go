// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package cases holds the cases of the differential test: the input of a kubelet for a
// pod's DNS and hostname, its answer, the difference of the engine's result, and the
// inputs for which there may be one.
//
// It does not link the kubelet, which package reference does: the replay program is
// built once for each mutant of the engine, and must build in seconds.
package cases
