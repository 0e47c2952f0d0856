// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// Places maps the fields of a configuration file to where they begin in its text.
type Places struct {
	file      string
	positions *document.Positions // nil: not known
}

// Of returns the position of a field, or of its closest existing parent. Fields of nodes, such
// as clusterDNS, are below node in some kinds.
func (p *Places) Of(field string) document.Position {
	if at := p.positions.Of(field); field == "" || at != p.positions.Of("") {
		return at
	}
	return p.positions.Of("node." + field)
}

// At returns the location of a field.
func (p *Places) At(field string) document.Location {
	at := document.Location{File: p.file, Field: field}
	if p.positions != nil {
		begin := p.Of(field)
		at.Line, at.Column = begin.Line, begin.Column
	}
	return at
}

// locate returns the errors that err joins, which are of decoding the file, each as an
// *document.InputError.
func (p *Places) locate(err error) error {
	var errs []error
	for _, e := range excerpt.Unjoin(err) {
		located := &document.InputError{Location: document.Location{File: p.file}, Err: e}
		var unknown interface{ FieldPath() string }
		if line, ok := errors.AsType[*document.LineError](e); ok && p.positions != nil {
			located.Line, located.Err = line.Line, errors.New(line.Problem)
		} else if typed, ok := errors.AsType[*document.TypeError](e); ok {
			located.Location, located.Err = p.At(typed.Field), errors.New(typed.Problem)
		} else if errors.As(e, &unknown) {
			located.Location = p.At(unknown.FieldPath())
			located.Field = "" // the text has it
		}
		errs = append(errs, located)
	}
	return errors.Join(errs...)
}

// Locate returns an error of decoding the file at path, or several that are joined, with their places.
func Locate(path string, err error) error { return (&Places{file: path}).locate(err) }
