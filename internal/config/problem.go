// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
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

// Err returns the problems as one error; nil: there are none.
func (p *Problems) Err() error {
	var errs []error
	for _, problem := range p.list {
		errs = append(errs, problem.err)
	}
	return errors.Join(errs...)
}
