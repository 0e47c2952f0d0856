// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodecache runs the server of the command nodecache: the DNS cache of a node,
// which shares its addresses with the instance that it replaces.
package nodecache
