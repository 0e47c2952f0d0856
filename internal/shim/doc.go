// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package shim runs the server of the command shim: the proxy of package cri, the watches of
// the node's pods and host file, the events, and the reload of the configuration.
package shim
