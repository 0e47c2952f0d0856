// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package deploy is what puts dnsconfigurer on nodes and into clusters, and the tests that
// hold it to the program: paths, flags and names are the same in all places, and those
// who read the files accept them.
package deploy
