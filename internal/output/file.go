// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

// WriteFileFindings writes findings about the configuration file at path: as JSON Lines if the
// format is json, otherwise as text with hints.
func WriteFileFindings(w io.Writer, format, path string, found []v1alpha1.Finding) (err error) {
	for _, f := range found {
		if format == formatJSON {
			err = json.NewEncoder(w).Encode(f)
		} else {
			_, err = fmt.Fprintf(w, "%s:%d:%d: %s: %s: %s (%s)\nhint: %s\n",
				path, f.Line, f.Column, f.Severity, f.Field, f.Message, f.Code, f.Hint)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
