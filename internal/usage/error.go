// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import "fmt"

// Error is an error in the command line. Err may join several.
type Error struct{ Err error }

func (e Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e Error) Unwrap() error { return e.Err }

// Errorf is [fmt.Errorf] for an Error.
func Errorf(format string, args ...any) error { return Error{fmt.Errorf(format, args...)} }
