// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// defaults has for each kind the output of Defaults, and comments.txt the texts of Comment. They are
// generated from the types: go test ./internal/config -run TestReference -update
//
//go:embed defaults
var defaults embed.FS

// Defaults returns a configuration file of the given kind that has and explains every
// field, at its default.
func Defaults(kind string) ([]byte, error) {
	text, err := defaults.ReadFile("defaults/" + kind + ".yaml")
	if err != nil {
		whole := strings.TrimSuffix(kind, "Configuration") + "Configuration"
		return nil, fmt.Errorf("unknown kind %q%s", kind,
			cmp.Or(excerpt.DidYouMean(whole, "", Kinds()), ": want "+strings.Join(Kinds(), ", ")))
	}
	return text, nil
}

// Comment returns the comment on a field of a struct of this package, with the names of the file. The
// field is given by its name in the file.
func Comment(of, field string) string {
	text, err := defaults.ReadFile("defaults/comments.txt")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut("\n"+string(text), "\n"+of+"."+field+": ")
	comment, _, _ := strings.Cut(rest, "\n")
	return comment
}

// ReadTypeMeta returns the apiVersion and kind of data, which is YAML or JSON.
func ReadTypeMeta(data []byte) (TypeMeta, error) {
	var t TypeMeta
	js, err := toJSON(data)
	if err != nil {
		return t, err
	}
	if err := document.Decode(js, &t); err != nil {
		return t, fmt.Errorf("not a configuration file: %w", err)
	}
	return t, nil
}

// toJSON rejects a second YAML document, which the decoder would ignore.
func toJSON(data []byte) ([]byte, error) {
	begun := false
	for line := range bytes.Lines(data) {
		text := bytes.TrimSpace(line)
		switch {
		case bytes.HasPrefix(line, []byte("---")):
			if begun {
				return nil, errors.New("holds more than one YAML document")
			}
		case len(text) > 0 && text[0] != '#':
			begun = true
		}
	}
	return document.JSON(data, 1)
}

// Parse decodes a configuration file of the kind T strictly. The error joins all problems, each with its
// field.
func Parse[T any](data []byte) (T, error) {
	var c T
	err := Decode(data, &c)
	return c, err
}

// Decode is Parse for a pointer to a configuration.
func Decode(data []byte, into any) error {
	js, err := toJSON(data)
	if err != nil {
		return err
	}
	c := reflect.ValueOf(into).Elem()
	problems := document.DecodeStrict(js, into)
	meta, kind := c.FieldByName("TypeMeta").Interface().(TypeMeta), c.Type().Name()
	for i, problem := range problems {
		problems[i] = withReplacement(problem, c.Type())
	}
	if t, ok := errors.AsType[*document.TypeError](errors.Join(problems...)); ok && t.Field == "" {
		return t // the document is not a mapping: it has no fields
	}
	if meta.Kind != "" && meta.Kind != kind {
		return wrongKind(meta.Kind, kind) // its fields are those of another kind
	}
	if meta.APIVersion != GroupVersion {
		problems = append(problems,
			&document.TypeError{Field: "apiVersion", Problem: fmt.Sprintf("is %q, must be %q", meta.APIVersion, GroupVersion)})
	}
	if meta.Kind == "" {
		problems = append(problems, wrongKind("", kind))
	}
	return errors.Join(problems...)
}

// withReplacement adds to the error about a field of 0.1.0 what replaces it, and to that about an unknown field of
// the type t the field that is meant.
func withReplacement(problem error, t reflect.Type) error {
	var unknown interface{ FieldPath() string }
	if errors.As(problem, &unknown) {
		if by := Replacement(unknown.FieldPath()); by != "" {
			return fmt.Errorf("%w: %s", problem, by)
		}
		return fmt.Errorf("%w%s", problem, similarField(t, unknown.FieldPath()))
	}
	if t, ok := errors.AsType[*document.TypeError](problem); ok && Replacement(t.Field) != "" {
		t.Problem += ": " + Replacement(t.Field)
	}
	return problem
}

var listIndex = regexp.MustCompile(`\[\d+\]`)

// similarField returns the end of the error about an unknown field: the field of t that is meant, which has a similar
// path, or the same name in another place. Otherwise the fields beside it.
func similarField(t reflect.Type, unknown string) string {
	path, paths := listIndex.ReplaceAllString(unknown, "[]"), fieldPaths(t, "")
	paths = paths[:len(paths)-1] // the last is that of t itself
	parent, name := path[:strings.LastIndex(path, ".")+1], path[strings.LastIndex(path, ".")+1:]
	if i := slices.IndexFunc(paths, func(p string) bool { return strings.HasSuffix("."+p, "."+name) }); i >= 0 {
		path = paths[i]
	}
	if similar := excerpt.DidYouMean(path, "", paths); similar != "" {
		return similar
	}
	if parent == "" {
		return ": dnsconfigurer config defaults " + t.Name() + " prints all fields"
	}
	var beside []string
	for _, p := range paths {
		if field, ok := strings.CutPrefix(p, parent); ok && field != "" && !strings.Contains(field, ".") {
			beside = append(beside, field)
		}
	}
	return ": want " + strings.Join(beside, ", ")
}

// fieldPaths returns the paths of all fields of t, such as stubDomains[].zone.
func fieldPaths(t reflect.Type, prefix string) (paths []string) {
	switch t.Kind() {
	case reflect.Pointer:
		return fieldPaths(t.Elem(), prefix)
	case reflect.Slice:
		return fieldPaths(t.Elem(), prefix+"[]")
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				paths = append(paths, fieldPaths(f.Type, strings.TrimPrefix(prefix+"."+name, "."))...)
			}
		}
	}
	return append(paths, strings.TrimSuffix(prefix, "[]"))
}

// wrongKind returns the error about a file of kind got where kind want is read.
func wrongKind(got, want string) error {
	problem := fmt.Sprintf("is %q, must be %q", got, want)
	if got == "KubeletConfiguration" {
		problem += ": the file of a kubelet is for --kubelet-config"
	}
	return &document.TypeError{Field: "kind", Problem: problem}
}
