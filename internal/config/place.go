// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

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

// Split splits the text of an error about the file into the position, the field and the rest,
// as far as it has them.
func (p *Places) Split(text string) (at document.Position, field, rest string) {
	rest, ok := strings.CutPrefix(text, p.file+":")
	if !ok {
		return document.Position{}, "", text
	}
	if m := placePattern().FindStringSubmatch(rest); m != nil {
		at.Line, _ = strconv.Atoi(m[1])
		at.Column, _ = strconv.Atoi(m[2])
		rest = m[3]
	}
	rest = strings.TrimPrefix(rest, " ")
	if m := fieldPattern().FindStringSubmatch(rest); m != nil {
		return at, m[1], m[2]
	}
	return at, "", rest
}

// placePattern matches a line, a column or nothing, and the rest of an error.
func placePattern() *regexp.Regexp { return regexp.MustCompile(`(?s)^(\d+)(?::(\d+))?: (.*)$`) }

// fieldPattern matches the path of a field, such as node.rules[0].options, and the rest.
func fieldPattern() *regexp.Regexp {
	return regexp.MustCompile(`(?s)^([A-Za-z]\w*(?:\[\d+\]|\.\w+)*): (.+)$`)
}
