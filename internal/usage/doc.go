// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package usage reports errors in the command line: the argument, the flag or the value, and what
// is valid instead. It exists because errors in a command line are found in many packages, lead
// to an exit code of their own, and would otherwise have the words of Go's parsers.
package usage
