// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	stdjson "encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/json"
)

// Decode decodes JSON into the pointer into. Names are case-sensitive; fields that it
// does not know are passed over. A value of the wrong type is a *TypeError.
func Decode(js []byte, into any) error {
	return inWords(js, json.UnmarshalCaseSensitivePreserveInts(js, into))
}

// DecodeStrict is Decode, and returns an error for each field that is not known or
// stands twice, too: a [json.FieldError].
func DecodeStrict(js []byte, into any) []error {
	problems, err := json.UnmarshalStrict(js, into)
	if err != nil {
		return []error{inWords(js, err)}
	}
	return problems
}

// TypeError is a value that has another type than its field.
type TypeError struct {
	Field   string // its path, as spec.dnsConfig.options[0].value; "" for the whole document
	Problem string // "is a number, must be a string"
}

func (e *TypeError) Error() string {
	if e.Field == "" {
		return e.Problem
	}
	return e.Field + ": " + e.Problem
}

// inWords turns a type error of decoding js into a TypeError.
func inWords(js []byte, err error) error {
	t, ok := errors.AsType[*stdjson.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	field := fieldOf(t)
	// The decoder's path has no indexes and no keys of maps. The offset has them; but
	// that of a type which decodes itself counts from the beginning of its own value.
	if path, names := pathAt(js, t.Offset); names == field || strings.HasPrefix(names, field+".") {
		field = path
	}
	return &TypeError{field, "is " + found(t.Value) + ", must be " + wanted(t.Type)}
}

// fieldOf returns the decoder's path of the field, without the types that a Go struct
// embeds: fields of the API begin with a small letter.
func fieldOf(t *stdjson.UnmarshalTypeError) string {
	elements := slices.DeleteFunc(strings.Split(t.Field, "."), func(e string) bool {
		return e == "" || 'A' <= e[0] && e[0] <= 'Z'
	})
	return strings.Join(elements, ".")
}

// found says in words which type the decoder found.
func found(value string) string {
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

// wanted says in words what a field of type t takes.
func wanted(t reflect.Type) string {
	switch k := t.Kind(); k {
	case reflect.Pointer:
		return wanted(t.Elem())
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
