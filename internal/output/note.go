// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package output

import "io"

// WriteNotes writes what a command has passed over in its input, each with its hint.
func WriteNotes(w io.Writer, notes []error) {
	for _, n := range notes {
		WriteError(w, n)
	}
}
