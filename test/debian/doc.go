// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package debian installs the programs that tests run, on Debian and as root, and keeps what tests
// download or build from other packages in the user's cache directory.
package debian
