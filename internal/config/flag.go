// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

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
