// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"io"
)

// A ResultWriter writes the result of a command to its standard output. Its errors say so, because
// that of a full disk or a closed descriptor does not.
type ResultWriter struct{ io.Writer }

// Write writes p.
func (w ResultWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		return n, fmt.Errorf("writing the result: %w", err)
	}
	return n, nil
}
