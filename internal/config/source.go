// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

// A Kind is a kind of configuration file. The first field of C is its type in api/v1alpha1; the others
// are values that Check and Finish set.
type Kind[C any] struct {
	// Decode decodes a file. nil: v1alpha1.Decode into the first field of C.
	Decode func(data []byte, c *C) error

	// Check adds what the tags of the fields cannot say. All fields have their defaults and are valid by
	// their tags. nil: nothing.
	Check func(c *C, p *Problems)

	// Finish checks for required fields, and reads the files that c refers to. nil: nothing.
	Finish func(c *C, s *Source[C]) error

	// FlagTag is the tag with the flags of fields. "": flag.
	FlagTag string
}

// api returns the first field of c.
func api[C any](c *C) reflect.Value { return reflect.ValueOf(c).Elem().Field(0) }

// Name returns the kind in the file.
func (k *Kind[C]) Name() string { return reflect.TypeFor[C]().Field(0).Name }

func (k *Kind[C]) fields() []field {
	return appendFields(nil, reflect.TypeFor[C]().Field(0).Type, "", nil, "")
}

// Defaults returns the configuration of an empty file.
func (k *Kind[C]) Defaults() C {
	var c C
	inField := func(path string) document.Location { return document.Location{Field: path} }
	k.check(&c, &Problems{origin: inField}) // only Finish requires fields
	return c
}

// NeedRestart returns the paths of the fields that differ in next and take effect when the
// server restarts.
func (k *Kind[C]) NeedRestart(running, next C) []string {
	var paths []string
	for _, f := range k.fields() {
		if f.restart && !reflect.DeepEqual(f.in(api(&running)).Interface(), f.in(api(&next)).Interface()) {
			paths = append(paths, f.path)
		}
	}
	return paths
}

// check sets defaults, validates all fields of c, and adds all problems to p, which has those of decoding.
func (k *Kind[C]) check(c *C, p *Problems) {
	k.checkValues(c, p)
	if k.Check == nil {
		return
	}
	known := p.list
	k.Check(c, p)
	found := p.list[len(known):]
	p.list = slices.Clip(known)
	for _, f := range found {
		if !slices.ContainsFunc(known, f.overlaps) { // otherwise it may follow from the default of an invalid field
			p.list = append(p.list, f)
		}
	}
}

// checkValues sets defaults, and validates the fields by their tags. An invalid field gets its default.
func (k *Kind[C]) checkValues(c *C, p *Problems) {
	for _, f := range k.fields() {
		v, known := f.in(api(c)), len(p.list)
		f.setDefault(v)
		if f.check(v, p); len(p.list) > known {
			v.SetZero()
			f.setDefault(v)
		}
	}
}

// A Source is a configuration file and the flags that override its fields. It is not safe
// for concurrent use.
type Source[C any] struct {
	*Kind[C]
	Files

	flags      *pflag.FlagSet
	flagValues C
	path       string
	positions  *document.Positions // of the file that was read last
}

// FromFile returns a source without flags.
func (k *Kind[C]) FromFile(path string) *Source[C] {
	return &Source[C]{Kind: k, flags: pflag.NewFlagSet("", pflag.ContinueOnError), path: path}
}

// FromText returns a source without flags, of a file that has been read.
func (k *Kind[C]) FromText(f File) *Source[C] {
	s := k.FromFile(f.Path)
	s.Files = f.Files()
	return s
}

// FromFlags adds --config and the flags of the fields to set.
func (k *Kind[C]) FromFlags(set *pflag.FlagSet) *Source[C] {
	s := &Source[C]{Kind: k, flags: set}
	set.StringVar(&s.path, "config", "", "`FILE` of kind "+k.Name())
	for _, f := range k.fields() {
		if name := k.flagOf(&f); name != "" {
			v := &flagValue{field: f, at: f.in(api(&s.flagValues))}
			f.setDefault(v.at)
			set.Var(v, name, f.usage())
			if values := f.values(); values != nil {
				usage.SetValues(set, name, values)
			}
		}
	}
	return s
}

// flagOf returns the name of the flag that overrides f; "": none.
func (k *Kind[C]) flagOf(f *field) string {
	if f.noFlag {
		return ""
	}
	return f.tag.Get(cmp.Or(k.FlagTag, "flag"))
}

// Load reads the files and returns the validated configuration. If all errors are in flags,
// the error is a usage.Error.
func (s *Source[C]) Load() (C, error) {
	var none C
	c, err := s.load()
	if err != nil {
		return none, err
	}
	if s.Finish != nil {
		if err := s.Finish(&c, s); err != nil {
			return none, err
		}
	}
	return c, nil
}

// CheckFields reads the configuration file, and none of the files that it names. It returns
// the errors in its fields. A required field may be missing: a flag of the server may set it.
func (s *Source[C]) CheckFields() error {
	_, err := s.load()
	return err
}

// load returns the configuration with valid fields.
func (s *Source[C]) load() (C, error) {
	var none C
	clear(s.loaded)
	c, p, err := s.read()
	if err != nil {
		return none, err
	}
	s.ApplyFlags(&c)
	s.check(&c, p)
	switch {
	case p.list == nil:
		return c, nil
	case !slices.ContainsFunc(p.list, s.concernsFile):
		return none, usage.Error{Err: p.Err()}
	}
	return none, p.Err()
}

// CheckValues sets the defaults of c, and returns the problems of fields by their tags alone.
func (s *Source[C]) CheckValues(c *C) *Problems {
	p := &Problems{origin: s.Origin}
	s.checkValues(c, p)
	return p
}

// concernsFile reports whether a field of p is set in the file.
func (s *Source[C]) concernsFile(p problem) bool {
	return s.path != "" && slices.ContainsFunc(p.paths, func(path string) bool { return !s.isSet(s.flagName(path)) })
}

// read reads the file, and returns the problems of decoding its fields. Without a file the configuration is empty.
func (s *Source[C]) read() (c C, p *Problems, err error) {
	p = &Problems{origin: s.Origin}
	if s.path == "" {
		return c, p, nil
	}
	data, err := s.Read(s.path)
	if err != nil {
		return c, p, Unreadable(s.path, err)
	}
	s.positions = document.NewPositions(data)
	if s.Decode != nil {
		err = s.Decode(data, &c)
	} else {
		err = v1alpha1.Decode(data, api(&c).Addr().Interface())
	}
	if err != nil {
		p.list = s.places().locate(err)
		if slices.ContainsFunc(p.list, func(f problem) bool { return f.paths[0] == "" || f.paths[0] == "kind" }) {
			return c, p, p.Err() // its fields are not those of this kind
		}
	}
	for _, f := range s.fields() {
		if f.tag.Get("relative") == "true" {
			f.resolvePath(f.in(api(&c)), s.path)
		}
	}
	return c, p, nil
}

// resolvePath resolves the relative path in v, a string or a pointer to one, from the directory of file.
func (f *field) resolvePath(v reflect.Value, file string) {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() == reflect.String && (f.values() == nil || strings.Contains(v.String(), "/")) {
		v.SetString(RelativeTo(file, v.String()))
	}
}

// ApplyFlags overrides the fields of c whose flag is set.
func (s *Source[C]) ApplyFlags(c *C) {
	for _, f := range s.fields() {
		if s.isSet(s.flagOf(&f)) {
			f.in(api(c)).Set(f.in(api(&s.flagValues)))
		}
	}
}

// isSet reports whether a flag overrides the file.
func (s *Source[C]) isSet(flag string) bool { return flag != "" && s.flags.Changed(flag) }

// Path returns the path of the file; "": there is none.
func (s *Source[C]) Path() string { return s.path }

// flagName returns the flag of the field at path, which may end in the index of a list item; "": none.
func (s *Source[C]) flagName(path string) string {
	path, _, _ = strings.Cut(path, "[")
	for _, f := range s.fields() {
		if f.path == path {
			return s.flagOf(&f)
		}
	}
	return ""
}

// places returns the places of the file.
func (s *Source[C]) places() *Places { return &Places{s.path, s.positions} }

// Origin returns where the field at path is set: its flag, or the file and the path.
func (s *Source[C]) Origin(path string) document.Location {
	switch flag := s.flagName(path); {
	case flag != "" && (s.path == "" || s.isSet(flag)):
		return document.Location{Field: "--" + flag}
	case s.path == "":
		return document.Location{Field: path}
	}
	return s.places().At(path)
}

// Missing returns the error about a required field. It names the file if there is one. remark
// is put at the end of the error.
func (s *Source[C]) Missing(path, remark string) error {
	where := "in the file"
	if flag := s.flagName(path); flag != "" {
		where += ", or as --" + flag
	}
	err := fmt.Errorf("missing: set it %s%s", where, remark)
	return s.Incomplete(&document.InputError{Location: s.Origin(path), Err: err})
}

// Incomplete returns the error about a required field that is missing. Without a file it is an
// error in the command line.
func (s *Source[C]) Incomplete(err error) error {
	if s.path == "" {
		return usage.Error{Err: err}
	}
	return err
}
