// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

// A field is one setting of a configuration type: a field of api/v1alpha1 with its tags.
type field struct {
	path    string // in the file, such as "node.resolvConf"
	index   []int  // for reflect.Value.FieldByIndex
	of      string // the type of its struct
	tag     reflect.StructTag
	preset  string // the default
	restart bool
	noFlag  bool // whatever the tag
}

// appendFields appends the fields of t, which is the struct at prefix, in the order of the file. outer has the tags of that struct
// in its own.
func appendFields(list []field, t reflect.Type, prefix string, index []int, outer reflect.StructTag) []field {
	for i := range t.NumField() {
		f, at := t.Field(i), append(slices.Clone(index), i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Type == reflect.TypeFor[v1alpha1.TypeMeta]():
		case f.Anonymous:
			list = appendFields(list, f.Type, prefix, at, f.Tag)
		case f.Type.Kind() == reflect.Struct:
			list = appendFields(list, f.Type, prefix+name+".", at, f.Tag)
		default:
			preset := f.Tag.Get("default")
			if key, value, ok := strings.Cut(outer.Get("defaults"), "="); ok && key == name {
				preset = value
			}
			list = append(list, field{
				path: prefix + name, index: at, of: t.Name(), tag: f.Tag, preset: preset,
				restart: f.Tag.Get("restart") == "true" || outer.Get("restarts") == name,
				noFlag:  outer.Get("flags") == "none",
			})
		}
	}
	return list
}

// name returns the last part of the path.
func (f *field) name() string { return f.path[strings.LastIndex(f.path, ".")+1:] }

// in returns the setting in a configuration.
func (f *field) in(api reflect.Value) reflect.Value { return api.FieldByIndex(f.index) }

// setDefault sets v to its default if it is empty or absent.
func (f *field) setDefault(v reflect.Value) {
	if f.preset != "" && v.IsZero() {
		if err := setText(v, f.preset); err != nil {
			panic(fmt.Sprintf("%s: default %q: %v", f.path, f.preset, err))
		}
	}
}

// setText sets v to the value of a text. The items of a list have commas. Slices and pointers are
// replaced, because copies of a configuration share what they refer to.
func setText(v reflect.Value, text string) (err error) {
	switch v.Kind() {
	case reflect.Pointer:
		next := reflect.New(v.Type().Elem())
		err = setText(next.Elem(), text)
		v.Set(next)
	case reflect.Slice:
		items := []string{}
		if text != "" {
			items = strings.Split(text, ",")
		}
		v.Set(reflect.ValueOf(items))
	case reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(text)
		v.SetBool(b)
	case reflect.Int:
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		v.SetInt(n)
	case reflect.Uint32:
		var n uint64
		n, err = strconv.ParseUint(text, 10, v.Type().Bits())
		v.SetUint(n)
	default:
		v.SetString(text)
	}
	return err
}

// check validates v, which has its default, and sets it to its canonical form.
func (f *field) check(v reflect.Value, p *Problems) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			next := reflect.New(v.Type().Elem())
			next.Elem().Set(v.Elem())
			f.check(next.Elem(), p)
			v.Set(next)
		}
	case reflect.Slice:
		if v.Len() > 0 {
			canonical := reflect.AppendSlice(reflect.Zero(v.Type()), v)
			for i := range canonical.Len() {
				f.checkItem(canonical.Index(i), fmt.Sprintf("%s[%d]", f.path, i), p)
			}
			v.Set(canonical)
		}
	case reflect.String:
		if text := v.String(); text != "" {
			f.checkText(&text, f.path, p)
			v.SetString(text)
		}
	case reflect.Int:
		f.checkNumber(v.Int(), p)
	case reflect.Uint32:
		f.checkNumber(int64(v.Uint()), p)
	}
}

// checkItem is check for an item of a list: a text or a struct.
func (f *field) checkItem(v reflect.Value, path string, p *Problems) {
	if text, ok := v.Addr().Interface().(*string); ok {
		f.checkText(text, path, p)
		return
	}
	for _, inner := range appendFields(nil, v.Type(), path+".", nil, "") {
		inner.check(inner.in(v), p)
	}
}

func (f *field) checkText(text *string, path string, p *Problems) {
	format, values := formats[f.tag.Get("format")], f.values()
	switch {
	case slices.Contains(values, *text):
	case format == nil && values != nil:
		p.Add(path, fmt.Errorf("%q: want %s", *text, usage.JoinOr(values)))
	case format != nil:
		canonical, err := format(*text, f.tag.Get("min"), f.tag.Get("max"))
		p.Add(path, err)
		*text = canonical
	}
}

// values returns the valid values; nil: all.
func (f *field) values() []string {
	if list := f.tag.Get("values"); list != "" {
		return strings.Split(list, ",")
	}
	return nil
}

func (f *field) checkNumber(n int64, p *Problems) {
	least, _ := strconv.ParseInt(f.tag.Get("min"), 10, 64)
	most, err := strconv.ParseInt(f.tag.Get("max"), 10, 64)
	if n < least || err == nil && n > most {
		p.Add(f.path, fmt.Errorf("%d: want %d to %d", n, least, most))
	}
}

// flagValue is the value of the flag of a field: a string, a list of strings or a pointer to one of them.
type flagValue struct {
	field
	at  reflect.Value
	set bool // at has the values of the command line instead of the default
}

// Type returns the name of the value in help.
func (v *flagValue) Type() string {
	return cmp.Or(v.tag.Get("arg"), strings.ToUpper(v.tag.Get("format")))
}

func (v *flagValue) Set(text string) error {
	switch {
	case text == "" && v.preset != "" && v.at.Kind() == reflect.String:
		return errors.New("is empty: want a value, or leave the flag out for the default")
	case v.at.Kind() == reflect.Slice && v.set: // a list that is repeated
		text = v.String() + "," + text
	}
	v.set = true
	return setText(v.at, text)
}

func (v *flagValue) String() string {
	if !v.at.IsValid() { // pflag compares the default with that of a zero flagValue
		return ""
	}
	at := v.at
	if at.Kind() == reflect.Pointer {
		if at.IsNil() {
			return ""
		}
		at = at.Elem()
	}
	if list, ok := at.Interface().([]string); ok {
		return strings.Join(list, ",")
	}
	return fmt.Sprint(at.Interface())
}

// usage returns the help of the flag: the first sentence of the comment on the field.
func (f *field) usage() string {
	text := v1alpha1.Comment(f.of, f.name())
	for _, verb := range []string{" is ", " lists "} {
		if subject, rest, ok := strings.Cut(text, verb); ok && subject == "`"+f.name()+"`" {
			text = rest
		}
	}
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "the "), ". ")
	return strings.TrimSuffix(strings.ReplaceAll(text, "`", ""), ".")
}

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
