// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodetools provides what tests need to run pods on this machine: container
// runtimes, images that are built locally, without a registry, and cgroups.
package nodetools
