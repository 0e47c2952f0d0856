// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package server runs the server of the command webhook: the admission webhook with its
// rules, its certificate and its client of the API server.
package server
