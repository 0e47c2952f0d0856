// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package certs makes certificates for the tests of TLS servers and clients.
package certs
