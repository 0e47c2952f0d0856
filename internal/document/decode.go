// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	k8sjson "sigs.k8s.io/json"
)

// Decode decodes JSON into the pointer into. Field names are case-sensitive, unknown
// fields are ignored, and a value of the wrong type is a *TypeError.
func Decode(js []byte, into any) error {
	return asTypeError(js, into, k8sjson.UnmarshalCaseSensitivePreserveInts(js, into))
}

// DecodeStrict is like Decode, and also returns a FieldError of sigs.k8s.io/json for each unknown or
// duplicate field, and at most maxTypeErrors values of the wrong type: the decoder returns the first one, so the
// others are found in the document without it.
func DecodeStrict(js []byte, into any) (problems []error) {
	target := into
	for range maxTypeErrors {
		found, err := k8sjson.UnmarshalStrict(js, target)
		if err == nil {
			return append(problems, found...)
		}
		err = asTypeError(js, into, err)
		problems = append(problems, err)
		t, ok := errors.AsType[*TypeError](err)
		if !ok || t.Field == "" {
			break
		}
		if js, err = withNull(js, t.Field); err != nil {
			break
		}
		target = reflect.New(reflect.TypeOf(into).Elem()).Interface()
	}
	return problems
}

const maxTypeErrors = 10

// withNull returns a document with null as the value at a path, which exists.
func withNull(js []byte, path string) ([]byte, error) {
	var root any
	decoder := stdjson.NewDecoder(bytes.NewReader(js))
	decoder.UseNumber()
	if err := decoder.Decode(&root); err != nil {
		return nil, err
	}
	for node := root; path != ""; {
		var step string
		step, path = cutStep(path)
		switch n := node.(type) {
		case map[string]any:
			if node = n[step]; path == "" {
				n[step] = nil
			}
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(n) {
				return nil, errors.New("no such index")
			}
			if node = n[i]; path == "" {
				n[i] = nil
			}
		default:
			return nil, errors.New("no such value")
		}
	}
	return stdjson.Marshal(root)
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

// asTypeError converts the error of decoding js into a value to a TypeError if it is a type error. The
// path of that decoder has Go names, and lacks indexes and map keys: DecodeLarge finds the field.
func asTypeError(js []byte, into any, err error) error {
	t, ok := errors.AsType[*stdjson.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	again := DecodeLarge(js, reflect.New(reflect.TypeOf(into).Elem()).Interface())
	found, ok := errors.AsType[*TypeError](again)
	if !ok {
		return &TypeError{"", "is a " + t.Value + ", must be " + describeType(t.Type)}
	}
	value, _, _ := strings.Cut(found.Problem, ", must be ")
	found.Problem = value + ", must be " + describeType(t.Type) // of an IntOrString only t has the number
	return found
}

// DecodeLarge is like Decode for documents of megabytes with a few fields to read. It reads
// the bytes once, where Decode validates, measures and decodes each value. A pod with 190,000
// options takes 100 ms instead of 160 (`go test ./internal/admission/webhook -bench Review_Large`).
//
// The Go type must not contain a field of type any: its numbers would be float64. Of duplicate
// fields a null resets what the previous one has set.
func DecodeLarge(js []byte, into any) error {
	err := json.Unmarshal(js, into, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, ok := errors.AsType[*TypeError](err); ok { // of an UnmarshalJSON that uses Reader
		return t
	}
	s, ok := errors.AsType[*json.SemanticError](err)
	if !ok || s.GoType == nil {
		return err
	}
	value := string(s.JSONValue) // of a number that does not fit, or "".
	if s.JSONKind != jsontext.KindNumber || s.Err == nil {
		value = describeKind(s.JSONKind)
	}
	return &TypeError{pointerPath(s.JSONPointer), "is " + value + ", must be " + describeType(s.GoType)}
}

// pointerPath returns the path of a JSON Pointer. A name of digits counts as an index: API types have
// such names only in maps, and [Positions.Of] accepts both forms.
func pointerPath(p jsontext.Pointer) string {
	var path strings.Builder
	for name := range p.Tokens() {
		switch quoted := strconv.Quote(name); {
		case len(quoted) != len(name)+2: // the name has characters that need escaping
			path.WriteString("[" + quoted + "]")
		case strings.ContainsAny(name, "./[] ") || strings.Trim(name, "0123456789") == "":
			path.WriteString("[" + name + "]")
		case path.Len() > 0:
			path.WriteString("." + name)
		default:
			path.WriteString(name)
		}
	}
	return path.String()
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

// describeKind returns the words for a kind of JSON values.
func describeKind(kind jsontext.Kind) string {
	return map[jsontext.Kind]string{
		jsontext.KindNull: "null", jsontext.KindString: "a string", jsontext.KindNumber: "a number",
		jsontext.KindTrue: "a boolean", jsontext.KindFalse: "a boolean",
		jsontext.KindBeginObject: "a mapping", jsontext.KindBeginArray: "a list",
	}[kind]
}
