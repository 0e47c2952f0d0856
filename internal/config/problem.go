// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// Problems are the errors in the fields of a configuration, with their places.
type Problems struct {
	origin func(path string) document.Location
	list   []problem
}

// A problem is an invalid value, or values that cannot be combined.
type problem struct {
	paths []string // of the fields
	err   error
}

// overlaps reports whether p and other concern the same field, or a field and a part of it.
func (p problem) overlaps(other problem) bool {
	return isWithin(p.paths[0], other.paths[0]) || isWithin(other.paths[0], p.paths[0])
}

// isWithin reports whether path is parent, or the path of a part of it, such as listen[1] of listen.
func isWithin(path, parent string) bool {
	rest, ok := strings.CutPrefix(path, parent)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Add adds the error of the field at path, which may be an item of a list, such as "listen[1]", or
// several joined errors. A nil err adds nothing.
func (p *Problems) Add(path string, err error) {
	if err == nil {
		return
	}
	for _, e := range excerpt.Unjoin(err) {
		p.list = append(p.list, problem{[]string{path}, &document.InputError{Location: p.origin(path), Err: e}})
	}
}

// AddConflict adds the error that the field at path cannot be combined with others.
func (p *Problems) AddConflict(path string, others ...string) {
	names := make([]string, len(others))
	for i, o := range others {
		names[i] = p.origin(o).Name()
	}
	err := errors.New("cannot be combined with " + strings.Join(names, " or "))
	p.list = append(p.list, problem{append(others, path), &document.InputError{Location: p.origin(path), Err: err}})
}

// Of returns the first problem of the field at path; nil: there is none.
func (p *Problems) Of(path string) error {
	for _, problem := range p.list {
		if problem.paths[0] == path {
			return problem.err
		}
	}
	return nil
}

// Err returns the problems as one error, in the order of their places; nil: there are none.
func (p *Problems) Err() error { return join(p.list) }

// join joins the errors of problems in the order of their places. Those without a place are first.
func join(list []problem) error {
	var errs []error
	for _, problem := range list {
		errs = append(errs, problem.err)
	}
	place := func(err error) document.Position {
		if in, ok := errors.AsType[*document.InputError](err); ok {
			return document.Position{Line: in.Line, Column: in.Column}
		}
		return document.Position{}
	}
	slices.SortStableFunc(errs, func(a, b error) int {
		return cmp.Or(cmp.Compare(place(a).Line, place(b).Line), cmp.Compare(place(a).Column, place(b).Column))
	})
	return errors.Join(errs...)
}

// Places maps the fields of a configuration file to where they begin in its text.
type Places struct {
	file      string
	positions *document.Positions
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
	at := p.Of(field)
	return document.Location{File: p.file, Field: field, Line: at.Line, Column: at.Column}
}

// locate returns the errors that err joins, which are of decoding the file, as problems. The path of an error that
// is not about a field is "".
func (p *Places) locate(err error) (list []problem) {
	for _, e := range excerpt.Unjoin(err) {
		located := &document.InputError{Location: document.Location{File: p.file}, Err: e}
		path := ""
		var unknown interface{ FieldPath() string }
		if line, ok := errors.AsType[*document.LineError](e); ok {
			located.Line, located.Err = line.Line, errors.New(line.Problem)
		} else if typed, ok := errors.AsType[*document.TypeError](e); ok {
			located.Location, located.Err = p.At(typed.Field), errors.New(typed.Problem)
			path = typed.Field
		} else if errors.As(e, &unknown) {
			path = unknown.FieldPath()
			located.Location = p.At(path)
			located.Field = "" // the text has it
		}
		list = append(list, problem{[]string{path}, located})
	}
	return list
}
