// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"os"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/multierr"
)

// Places maps the fields of a configuration file to where they begin in its text.
type Places struct {
	file      string
	positions *document.Positions
}

// ReadPlaces returns the places of the file at path. If it cannot be read, all fields are at
// its beginning.
func ReadPlaces(path string) *Places {
	text, _ := os.ReadFile(path) // Source.Load reports the error
	return &Places{path, document.NewPositions(text)}
}

// Of returns the position of a field, or of its closest existing parent. Fields of nodes, such
// as clusterDNS, are below node in some kinds.
func (p *Places) Of(field string) document.Position {
	if at := p.positions.Of(field); field == "" || at != p.positions.Of("") {
		return at
	}
	return p.positions.Of("node." + field)
}

// Text returns "file:line:column" of a field.
func (p *Places) Text(field string) string {
	at := p.Of(field)
	return fmt.Sprintf("%s:%d:%d", p.file, at.Line, at.Column)
}

// addTo puts its place before each of the errors that err joins, which are of decoding the
// file.
func (p *Places) addTo(err error) error {
	var errs []error
	for _, e := range multierr.Unjoin(err) {
		var unknown interface{ FieldPath() string }
		if line, ok := errors.AsType[*document.LineError](e); ok {
			errs = append(errs, fmt.Errorf("%s:%d: %s", p.file, line.Line, line.Problem))
		} else if typed, ok := errors.AsType[*document.TypeError](e); ok {
			errs = append(errs, fmt.Errorf("%s: %w", p.Text(typed.Field), e))
		} else if errors.As(e, &unknown) {
			errs = append(errs, fmt.Errorf("%s: %w", p.Text(unknown.FieldPath()), e))
		} else {
			errs = append(errs, fmt.Errorf("%s: %w", p.file, e))
		}
	}
	return errors.Join(errs...)
}
