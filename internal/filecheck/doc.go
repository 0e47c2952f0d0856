// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package filecheck checks a configuration file of any kind as the process that reads it does,
// without running this process. It is separate from package config because some checks build
// what a server builds.
package filecheck
