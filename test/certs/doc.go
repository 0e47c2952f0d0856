// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package certs makes certificates for the tests of what serves TLS and of what asks it.
package certs
