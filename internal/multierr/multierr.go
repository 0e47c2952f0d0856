// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package multierr

import (
	"errors"
	"fmt"
)

// Unjoin returns the errors that err joins, at any depth. An error that joins no others is
// returned alone.
func Unjoin(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, Unjoin(e)...)
	}
	return all
}

// Prefix puts "name: " before each of the errors that err joins.
func Prefix(name string, err error) error {
	var errs []error
	for _, e := range Unjoin(err) {
		errs = append(errs, fmt.Errorf("%s: %w", name, e))
	}
	return errors.Join(errs...)
}
