// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	stdjson "encoding/json"
	"errors"
	"reflect"
	"strings"

	"sigs.k8s.io/json"
)

// Decode decodes JSON into the pointer into. Field names are case-sensitive, unknown
// fields are ignored, and a value of the wrong type is a *TypeError.
func Decode(js []byte, into any) error {
	return asTypeError(js, into, json.UnmarshalCaseSensitivePreserveInts(js, into))
}

// DecodeStrict is like Decode, and also returns a [json.FieldError] for each unknown or
// duplicate field.
func DecodeStrict(js []byte, into any) []error {
	problems, err := json.UnmarshalStrict(js, into)
	if err != nil {
		return []error{asTypeError(js, into, err)}
	}
	return problems
}

// TypeError reports a value whose type is not that of its field.
type TypeError struct {
	Field   string // its path, such as spec.dnsConfig.options[0].value; "" for the document itself
	Problem string // "is a number, must be a string"
}

func (e *TypeError) Error() string {
	if e.Field == "" {
		return e.Problem
	}
	return e.Field + ": " + e.Problem
}

// asTypeError converts the error of decoding js into a value to a TypeError if it is a type error.
func asTypeError(js []byte, into any, err error) error {
	t, ok := errors.AsType[*stdjson.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	field := decoderPath(reflect.TypeOf(into), t.Field)
	// The decoder's path lacks indexes and map keys; they follow from the offset. The
	// offset is unusable for a type with its own UnmarshalJSON: it counts from the start
	// of that value.
	if path, names := pathAt(js, t.Offset); names == field || strings.HasPrefix(names, field+".") {
		field = path
	}
	return &TypeError{field, "is " + describeValue(t.Value) + ", must be " + describeType(t.Type)}
}

// decoderPath returns path, the decoder's path of a field below a value of type t, without the
// names of embedded Go structs.
func decoderPath(t reflect.Type, path string) string {
	var elements []string
	for name := range strings.SplitSeq(path, ".") {
		t = structType(t)
		if embedded := embeddedStruct(t, name); embedded != nil {
			t = embedded
			continue
		}
		elements = append(elements, name)
		t = fieldType(t, name)
	}
	return strings.Join(elements, ".")
}

// structType returns the struct type of t, of what t points to or of its elements; nil if there
// is none.
func structType(t reflect.Type) reflect.Type {
	for t != nil {
		switch t.Kind() {
		case reflect.Struct:
			return t
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			t = t.Elem()
		default:
			return nil
		}
	}
	return nil
}

// embeddedStruct returns the type of the struct that t embeds under a Go name, or nil. An embedded
// struct with a JSON name is a field like others.
func embeddedStruct(t reflect.Type, name string) reflect.Type {
	if t == nil {
		return nil
	}
	f, ok := t.FieldByName(name)
	if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); !ok || !f.Anonymous || tag != "" {
		return nil
	}
	return f.Type
}

// fieldType returns the type of the field of t with a JSON name, or nil.
func fieldType(t reflect.Type, name string) reflect.Type {
	if t == nil {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name || tag == "" && f.Name == name {
			return f.Type
		}
	}
	return nil
}

// describeValue returns the words for the decoder's description of a value.
func describeValue(value string) string {
	switch kind, number, _ := strings.Cut(value, " "); {
	case number != "":
		return number
	case kind == "array":
		return "a list"
	case kind == "object":
		return "a mapping"
	case kind == "bool":
		return "a boolean"
	default: // string, number
		return "a " + kind
	}
}

// describeType returns the words for the values of a field of type t.
func describeType(t reflect.Type) string {
	switch k := t.Kind(); k {
	case reflect.Pointer:
		return describeType(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int32, reflect.Uint32:
		return "a whole number of 32 bits"
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		switch t.Elem().Kind() {
		case reflect.String:
			return "a list of strings"
		case reflect.Struct:
			return "a list of mappings"
		}
		return "a list"
	case reflect.Struct, reflect.Map:
		return "a mapping"
	default:
		return "a " + k.String()
	}
}
