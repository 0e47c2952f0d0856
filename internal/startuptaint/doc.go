// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package startuptaint removes the taint with which a node has registered, when the NRI relay of
// the node is connected. It exists so that no pod is scheduled to a new node before its files can
// be written.
package startuptaint
