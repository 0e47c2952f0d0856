// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package shim runs the server of the command shim: the proxy of package cri with the
// node's pods, its host file, its reports and its configuration.
package shim
