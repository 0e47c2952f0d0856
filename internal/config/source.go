// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

// A Source is a configuration file and the flags that override its fields. It is not safe
// for concurrent use.
type Source[C any] struct {
	*Kind[C]
	flags      *pflag.FlagSet
	flagValues C
	path       string
	positions  *document.Positions // of the file; nil: errors name the file and the field alone
	files      files
}

// FromFile returns a source without flags.
func (k *Kind[C]) FromFile(path string) *Source[C] {
	return &Source[C]{Kind: k, flags: pflag.NewFlagSet("", pflag.ContinueOnError), path: path}
}

// FromText returns a source without flags, of a file that has been read. Errors about the file
// begin with "file:line:column".
func (k *Kind[C]) FromText(f File) *Source[C] {
	s := k.FromFile(f.Path)
	s.files, s.positions = f.files(), f.Places().positions
	return s
}

// FromFlags adds --config and the flags of all fields to set.
func (k *Kind[C]) FromFlags(set *pflag.FlagSet) *Source[C] { return k.fromFlags(set, k.Defaults()) }

// fromFlags is FromFlags with other default values of the flags in help.
func (k *Kind[C]) fromFlags(set *pflag.FlagSet, defaults C) *Source[C] {
	s := &Source[C]{Kind: k, flags: set, flagValues: defaults}
	set.StringVar(&s.path, "config", "", "`FILE` of kind "+k.Name)
	for _, f := range k.Fields {
		if f.Flag != "" {
			addFlag(set, f.Flag, f.Usage, f.At(&s.flagValues))
			usage.SetWanted(set, f.Flag, f.Wanted)
			if f.Values != nil {
				usage.SetValues(set, f.Flag, f.Values)
			}
		}
	}
	return s
}

// addFlag adds a flag that sets *at.
func addFlag(set *pflag.FlagSet, name, usage string, at any) {
	switch at := at.(type) {
	case *string:
		set.StringVar(at, name, *at, usage)
	case *[]string:
		set.StringSliceVar(at, name, *at, usage)
	case *bool:
		set.BoolVar(at, name, *at, usage)
	case *uint16:
		set.Uint16Var(at, name, *at, usage)
	case **uint32:
		*at = allocate(*at)
		set.Uint32Var(*at, name, **at, usage)
	case **string:
		*at = allocate(*at)
		set.StringVar(*at, name, **at, usage)
	case **[]string:
		*at = allocate(*at)
		set.StringSliceVar(*at, name, **at, usage)
	case *[]v1alpha1.StubDomain:
		set.Var((*stubDomainFlag)(at), name, usage)
	default:
		panic(fmt.Sprintf("--%s: no flag can set a %T", name, at))
	}
}

// allocate returns a pointer to a copy of *p, or to the zero value.
func allocate[T any](p *T) *T {
	v := new(T)
	if p != nil {
		*v = *p
	}
	return v
}

// stubDomainFlag is the value of a repeatable flag ZONE=ADDR,...
type stubDomainFlag []v1alpha1.StubDomain

func (f *stubDomainFlag) Type() string { return "stringArray" }

func (f *stubDomainFlag) Set(text string) error {
	zone, servers, found := strings.Cut(text, "=")
	stub := v1alpha1.StubDomain{Zone: zone}
	if found {
		stub.Servers = strings.Split(servers, ",")
	}
	*f = append(*f, stub)
	return nil
}

func (f *stubDomainFlag) String() string {
	var texts []string
	for _, d := range *f {
		texts = append(texts, d.Zone+"="+strings.Join(d.Servers, ","))
	}
	return strings.Join(texts, " ")
}

// Load reads the files and returns the validated configuration. If all errors are in flags,
// the error is a usage.Error.
func (s *Source[C]) Load() (C, error) {
	var none C
	c, err := s.load()
	if err != nil {
		return none, err
	}
	if err := s.finish(&c, s); err != nil {
		return none, err
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
	s.files.reset()
	c, err := s.read()
	if err != nil {
		return none, err
	}
	if err := s.checkFlags(); err != nil {
		return none, usage.Error{Err: err}
	}
	s.applyFlags(&c)
	if problems := s.check(&c, s.origin); problems != nil {
		err := joinProblems(problems)
		if s.path == "" || !slices.ContainsFunc(problems, s.concernsFile) {
			err = usage.Error{Err: err}
		}
		return none, err
	}
	return c, nil
}

// concernsFile reports whether a field of p is not set by its flag.
func (s *Source[C]) concernsFile(p problem) bool {
	return slices.ContainsFunc(p.paths, func(path string) bool { return !s.isSet(s.field(path)) })
}

// Changed polls the files that Load has read. It reports whether Load must be called again:
// a file has changed since Load, and none has changed since the previous call of Changed. The
// second condition avoids reading a file while it is being written.
func (s *Source[C]) Changed() bool { return s.files.changed() }

// Settled reports whether no file has changed between the last two calls of Changed.
func (s *Source[C]) Settled() bool { return s.files.settled }

// read reads the file. Without one the configuration is empty.
func (s *Source[C]) read() (c C, err error) {
	if s.path == "" {
		return c, nil
	}
	data, err := s.files.read(s.path)
	if err != nil {
		return c, unreadable(s.path, err)
	}
	if c, err = s.parse(data); err != nil {
		return c, s.places().locate(err)
	}
	if s.resolve != nil {
		s.resolve(&c, s.path)
	}
	return c, nil
}

// checkFlags returns an error about each flag that must have a value and has none.
func (s *Source[C]) checkFlags() error {
	var problems []error
	for _, f := range s.Fields {
		if f.RequireFlagValue && s.isSet(&f) && s.flags.Lookup(f.Flag).Value.String() == "" {
			problems = append(problems, fmt.Errorf("--%s: is empty: want a value, or leave the flag out for the default", f.Flag))
		}
	}
	return errors.Join(problems...)
}

// applyFlags overrides the fields of c whose flag is set.
func (s *Source[C]) applyFlags(c *C) {
	for _, f := range s.Fields {
		if s.isSet(&f) && f.Clear != nil {
			f.Clear(c)
		}
	}
	for _, f := range s.Fields {
		if s.isSet(&f) {
			reflect.ValueOf(f.At(c)).Elem().Set(reflect.ValueOf(f.At(&s.flagValues)).Elem())
		}
	}
}

// isSet reports whether the flag of f overrides the file.
func (s *Source[C]) isSet(f *Field[C]) bool {
	return f.Flag != "" && s.flags.Changed(f.Flag) &&
		!(f.IgnoreEmptyFlag && s.flags.Lookup(f.Flag).Value.String() == "")
}

// field returns the field at path, which may end in the index of a list item.
func (s *Source[C]) field(path string) *Field[C] {
	path, _, _ = strings.Cut(path, "[")
	for i := range s.Fields {
		if s.Fields[i].Path == path {
			return &s.Fields[i]
		}
	}
	return &Field[C]{Path: path}
}

// flagName returns what the field at path is called on the command line.
func (s *Source[C]) flagName(path string) string {
	if f := s.field(path); f.Flag != "" {
		return "--" + f.Flag
	}
	return path
}

// places returns the places of the file.
func (s *Source[C]) places() *Places { return &Places{s.path, s.positions} }

// origin returns where the field at path is set: its flag, or the file and the path.
func (s *Source[C]) origin(path string) kube.Location {
	if s.path == "" || s.isSet(s.field(path)) {
		return kube.Location{Field: s.flagName(path)}
	}
	return s.places().At(path)
}

// missing returns the error about a required field. It names the file if there is one. remark
// is put at the end of the error.
func (s *Source[C]) missing(path, remark string) error {
	err := fmt.Errorf("missing: set it in the file, or as %s%s", s.flagName(path), remark)
	return s.incomplete(&kube.InputError{Location: s.origin(path), Err: err})
}

// incomplete returns the error about a required field that is missing. Without a file it is an
// error in the command line.
func (s *Source[C]) incomplete(err error) error {
	if s.path == "" {
		return usage.Error{Err: err}
	}
	return err
}

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
func (p *Places) At(field string) kube.Location {
	at := kube.Location{File: p.file, Field: field}
	if p.positions != nil {
		begin := p.Of(field)
		at.Line, at.Column = begin.Line, begin.Column
	}
	return at
}

// locate returns the errors that err joins, which are of decoding the file, each as an
// *InputError of package kube.
func (p *Places) locate(err error) error {
	var errs []error
	for _, e := range excerpt.Unjoin(err) {
		located := &kube.InputError{Location: kube.Location{File: p.file}, Err: e}
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
