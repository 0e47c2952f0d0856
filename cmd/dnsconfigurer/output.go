// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// checkOutput checks the value of -o.
func checkOutput(value string, allowed ...string) error {
	if !slices.Contains(allowed, value) {
		return usageError{fmt.Errorf("-o %q: want %s", value, strings.Join(allowed, ", "))}
	}
	return nil
}
