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

// Decode decodes JSON into the pointer into. Field names are case-sensitive, unknown
// fields are ignored, and a value of the wrong type is a *TypeError.
func Decode(js []byte, into any) error {
	return asTypeError(js, json.UnmarshalCaseSensitivePreserveInts(js, into))
}

// DecodeStrict is like Decode, and also returns a [json.FieldError] for each unknown or
// duplicate field.
func DecodeStrict(js []byte, into any) []error {
	problems, err := json.UnmarshalStrict(js, into)
	if err != nil {
		return []error{asTypeError(js, err)}
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

// asTypeError converts the error of decoding js to a TypeError if it is a type error.
func asTypeError(js []byte, err error) error {
	t, ok := errors.AsType[*stdjson.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	field := decoderPath(t)
	// The decoder's path lacks indexes and map keys; they follow from the offset. The
	// offset is unusable for a type with its own UnmarshalJSON: it counts from the start
	// of that value.
	if path, names := pathAt(js, t.Offset); names == field || strings.HasPrefix(names, field+".") {
		field = path
	}
	return &TypeError{field, "is " + describeValue(t.Value) + ", must be " + describeType(t.Type)}
}

// decoderPath returns the decoder's path of the field without the names of embedded Go
// structs. Field names of the API begin with a lower-case letter.
func decoderPath(t *stdjson.UnmarshalTypeError) string {
	elements := slices.DeleteFunc(strings.Split(t.Field, "."), func(e string) bool {
		return e == "" || 'A' <= e[0] && e[0] <= 'Z'
	})
	return strings.Join(elements, ".")
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
