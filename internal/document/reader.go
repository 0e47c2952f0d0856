// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// Reader reads parts of a JSON value without decoding the rest, and without reflection, which
// takes most of the time in lists of small values (`go test ./internal/admission/webhook -bench
// Review_Large`).
//
// Strings are decoded as by Decode: bytes that are not UTF-8 and lone surrogates become U+FFFD.
// A value of another type is a *TypeError.
type Reader struct {
	d     *jsontext.Decoder
	field string // of the value
}

// NewReader returns a Reader of js. field is the path of the value, which is put before the
// fields of errors.
func NewReader(field string, js []byte) *Reader {
	d := jsontext.NewDecoder(bytes.NewBuffer(js), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return &Reader{d, field}
}

// Members reads an object and calls visit with the key of each member, in order, until visit
// returns an error. visit must read the value. null has no members.
func (r *Reader) Members(visit func(key string) error) error {
	if null, err := r.open(jsontext.KindBeginObject, "a mapping"); null || err != nil {
		return err
	}
	for r.d.PeekKind() != jsontext.KindEndObject {
		key, err := r.d.ReadToken()
		if err != nil {
			return err
		}
		if err := visit(key.String()); err != nil {
			return err
		}
	}
	_, err := r.d.ReadToken()
	return err
}

// Items reads a list and calls visit for each item, in order, until visit returns an error.
// visit must read the item. null has no items.
func (r *Reader) Items(visit func() error) error {
	if null, err := r.open(jsontext.KindBeginArray, "a list"); null || err != nil {
		return err
	}
	for r.d.PeekKind() != jsontext.KindEndArray {
		if err := visit(); err != nil {
			return err
		}
	}
	_, err := r.d.ReadToken()
	return err
}

// String reads a string. null is "".
func (r *Reader) String() (string, error) {
	token, err := r.d.ReadToken()
	switch {
	case err != nil:
		return "", err
	case token.Kind() == jsontext.KindNull:
		return "", nil
	case token.Kind() != jsontext.KindString:
		return "", r.typeError(token.Kind(), "a string")
	}
	return token.String(), nil
}

// Skip reads a value of any type.
func (r *Reader) Skip() error { return r.d.SkipValue() }

// Raw reads a value of any type, and returns it as it is written, until the next call of a method.
func (r *Reader) Raw() ([]byte, error) { return r.d.ReadValue() }

// IsObject reports whether the next value is an object. It does not read it.
func (r *Reader) IsObject() bool { return r.d.PeekKind() == jsontext.KindBeginObject }

// IsNull reports whether the next value is null. It does not read it.
func (r *Reader) IsNull() bool { return r.d.PeekKind() == jsontext.KindNull }

// Error returns a *TypeError about the value that was read last, or has begun.
func (r *Reader) Error(problem string) error { return &TypeError{r.path(), problem} }

// open reads the beginning of an object or list, or null.
func (r *Reader) open(kind jsontext.Kind, want string) (null bool, err error) {
	token, err := r.d.ReadToken()
	switch {
	case err != nil || token.Kind() == kind:
		return false, err
	case token.Kind() == jsontext.KindNull:
		return true, nil
	}
	return false, r.typeError(token.Kind(), want)
}

// typeError returns the error of the value that was read last, or has begun.
func (r *Reader) typeError(kind jsontext.Kind, want string) error {
	return r.Error("is " + describeKind(kind) + ", must be " + want)
}

// path returns the path of the value that was read last, or has begun.
func (r *Reader) path() string {
	path := pointerPath(r.d.StackPointer())
	if r.field != "" && path != "" && path[0] != '[' {
		path = "." + path
	}
	return r.field + path
}
