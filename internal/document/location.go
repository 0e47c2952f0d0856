// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document

import "fmt"

// Location is a place in a manifest or in a configuration file. Its text is "file:line:column".
type Location struct {
	File         string // "": not in a file, such as a flag
	Document     int    // 1 is the first; 0: the file as a whole
	Line, Column int    // of the file, from 1; 0: not known

	Field  string // path from the document; "": the document as a whole
	Source string // the template in the comment that Helm writes before a document; "": none
}

func (l Location) String() string {
	switch {
	case l.Line == 0:
		return l.File
	case l.Column == 0:
		return fmt.Sprintf("%s:%d", l.File, l.Line)
	}
	return fmt.Sprintf("%s:%d:%d", l.File, l.Line, l.Column)
}

// Name returns the location and the field: "file:line:column: field".
func (l Location) Name() string {
	switch {
	case l.File == "":
		return l.Field
	case l.Field == "":
		return l.String()
	}
	return l.String() + ": " + l.Field
}

// InputError is an error in a manifest or in a configuration file.
type InputError struct {
	Location
	Err  error
	Hint string // how to correct it; "": none
}

func (e *InputError) Error() string {
	if name := e.Name(); name != "" {
		return name + ": " + e.Err.Error()
	}
	return e.Err.Error()
}

// Text returns the error without its place: the field and the problem.
func (e *InputError) Text() string {
	if e.Field == "" {
		return e.Err.Error()
	}
	return e.Field + ": " + e.Err.Error()
}

func (e *InputError) Unwrap() error { return e.Err }
