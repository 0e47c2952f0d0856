// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"cmp"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/json"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// manifestDocument is a document of a manifest.
type manifestDocument struct {
	number int    // 1 is the first
	line   int    // of the file, at which text begins
	before int    // the characters before text on that line
	text   []byte // as written
	item   string // the path of the object if text is an item of a list with its dash, such as "items[2]."

	positions *document.Positions // nil until the first position
}

// value returns the text. In an item of a list a blank replaces the dash: the columns are those of the file.
func (d *manifestDocument) value() []byte {
	if d.item == "" {
		return d.text
	}
	return bytes.Replace(d.text, []byte("-"), []byte(" "), 1)
}

// position returns where in the file the value at field begins, or its closest existing
// parent.
func (d *manifestDocument) position(field string) (line, column int) {
	if d.positions == nil {
		d.positions = document.NewPositions(d.value())
	}
	at := d.positions.Of(strings.TrimPrefix(field, strings.TrimSuffix(d.item, ".")))
	if at.Line == 1 {
		at.Column += d.before
	}
	return d.line + at.Line - 1, at.Column
}

// origin is where an object is from. The zero value is that of an object without a manifest.
type origin struct {
	file string
	doc  *manifestDocument
	item string // its path in a list, such as "items[2].", "" outside of lists
}

// path converts a path in the object to a path in the document.
func (o origin) path(field string) string { return strings.TrimSuffix(o.item+field, ".") }

// File returns the file in which the object is; "": none. Unlike At it does not look for the place in the file.
func (o origin) File() string { return o.file }

// At returns the place of a field. field is a path from the document; "" is the object. A
// field that does not exist is at its closest existing parent. At is not safe for concurrent
// use with other objects of the same Manifest.
func (o origin) At(field string) Location {
	if o.doc == nil {
		return Location{}
	}
	l := Location{File: o.file, Document: o.doc.number, Field: field, Source: o.doc.source()}
	l.Line, l.Column = o.doc.position(cmp.Or(field, o.path("")))
	return l
}

// source returns the template that Helm names in a comment at the start of the document,
// "" if there is none.
func (d *manifestDocument) source() string {
	for text := d.text; ; {
		text = bytes.TrimLeft(text, " \t\r\n")
		if !bytes.HasPrefix(text, []byte("#")) { // JSON may be one long line
			return ""
		}
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		if source, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("# Source: ")); ok {
			return string(source)
		}
	}
}

// yamlDocuments yields the documents of a YAML stream, without their JSON. A line that begins
// with "---" starts a document, and the rest of that line belongs to it. A line "..." ends a
// document. Blank documents are skipped.
func yamlDocuments(data []byte) iter.Seq[manifestDocument] {
	return func(yield func(manifestDocument) bool) {
		d, line, start, end, number := manifestDocument{line: 1}, 0, 0, 0, 0
		next := func() bool {
			d.text = data[start:end:end]
			if len(bytes.TrimSpace(d.text)) == 0 {
				return true
			}
			number++
			d.number = number
			return yield(d)
		}
		for l := range bytes.Lines(data) {
			line++
			if rest, ok := cutSeparator(l); ok {
				if !next() {
					return
				}
				d = manifestDocument{line: line, before: len(l) - len(rest)}
				start = end + d.before
			}
			end += len(l)
		}
		next()
	}
}

// Documents yields the documents of a YAML stream, each after the number of its first line. Blank ones are skipped.
func Documents(data []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for d := range yamlDocuments(data) {
			if !yield(d.line, d.text) {
				return
			}
		}
	}
}

// cutSeparator returns what follows the separator of documents at the start of line. It
// returns false if line is not a separator.
func cutSeparator(line []byte) (rest []byte, ok bool) {
	if string(bytes.TrimSpace(line)) == "..." && line[0] == '.' {
		return nil, true
	}
	rest, ok = bytes.CutPrefix(line, []byte("---"))
	if !ok || len(bytes.TrimSpace(rest)) == len(rest) && len(rest) > 0 {
		return nil, false // "----" and "---x" are text
	}
	return rest, true
}

// jsonDocuments returns the values of a stream of JSON values. isJSON is false if data does
// not begin with a JSON value, or if something other than JSON follows the last one, such as
// a separator or a comment of YAML: data is YAML then, which contains JSON. The error is that
// of the first value that is not complete, at its line; the values before it are returned.
func jsonDocuments(data []byte) (values []manifestDocument, isJSON bool, _ error) {
	line, counted := 1, 0
	d := stdjson.NewDecoder(bytes.NewReader(data))
	for {
		var v stdjson.RawMessage
		end := d.InputOffset()
		switch err := d.Decode(&v); {
		case errors.Is(err, io.EOF):
			return values, true, nil
		case err != nil:
			rest := bytes.TrimLeft(data[end:], " \t\r\n")
			if len(values) == 0 || rest[0] != '{' && rest[0] != '[' {
				return nil, false, nil
			}
			return values, true, jsonError(data, rest)
		}
		start := int(d.InputOffset()) - len(v)
		line += bytes.Count(data[counted:start], []byte("\n"))
		counted = start
		before := utf8.RuneCount(data[bytes.LastIndexByte(data[:start], '\n')+1 : start])
		values = append(values, manifestDocument{number: len(values) + 1, line: line, before: before, text: v})
	}
}

// jsonError returns the error of the invalid value at the start of rest, the end of data,
// with its line.
func jsonError(data, rest []byte) error {
	var v any
	err := stdjson.Unmarshal(rest, &v)
	end := len(data) - len(rest)
	if s, ok := errors.AsType[*stdjson.SyntaxError](err); ok {
		end += int(s.Offset)
	}
	return &document.LineError{Line: 1 + bytes.Count(bytes.TrimRight(data[:end], "\n"), []byte("\n")), Problem: err.Error()}
}

// UnknownField is a field that the API does not have, or that a newer version of it has, and
// that does not affect DNS. It is ignored.
type UnknownField struct {
	object origin
	path   string
}

// InputError returns the field as an error.
func (u UnknownField) InputError() *InputError {
	return &InputError{Location: u.object.At(u.object.path(u.path)), Err: errUnknownField, Hint: "check its spelling and its place"}
}

var errUnknownField = errors.New("unknown field")

// NoteUnknown returns a note about fields that are ignored, nil if there are none.
func NoteUnknown(fields []UnknownField) error {
	if len(fields) == 0 {
		return nil
	}
	objects, file := map[origin]bool{}, fields[0].object.file
	for _, f := range fields {
		objects[f.object] = true
		if f.object.file != file {
			file = "" // several
		}
	}
	return &InputError{
		Location: Location{File: file},
		Err:      fmt.Errorf("%s in %s ignored", Plural(len(fields), "unknown field"), Plural(len(objects), "object")),
		Hint:     "validate --strict lists them as errors",
	}
}

// Plural returns n and the noun, such as "2 objects".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

var (
	// dnsFields are the fields of a pod from which its DNS follows. They are an error in any
	// place that does not have them: a wrong indentation moves them into a container.
	dnsFields = []string{"dnsPolicy", "dnsConfig", "hostname", "subdomain", "setHostnameAsFQDN",
		"hostnameOverride", "hostNetwork", "hostAliases"}

	// decidingFields are all fields from which DNS or the names of pods follow. A key beside
	// them that is almost one of them is an error.
	decidingFields = []string{
		"dnsPolicy", "dnsConfig", "hostname", "subdomain", "setHostnameAsFQDN", "hostnameOverride", "hostNetwork", "hostAliases",
		"os", "nodeSelector", "metadata", "spec", "template", "jobTemplate", "name", "generateName", "namespace", "labels", "annotations",
		"replicas", "ordinals", "serviceName", "completions", "completionMode",
		"clusterIP", "clusterIPs", "externalName", "selector", "ports", "ipFamilies", "ipFamilyPolicy", "publishNotReadyAddresses",
		"endpoints", "addresses", "addressType", "conditions",
	}

	// decidingParents are the objects that have decidingFields.
	decidingParents = []string{"", "metadata", "spec", "template", "jobTemplate", "ports", "endpoints"}
)

// unknownField returns the path of the field that err reports as unknown, and the hint if it
// may affect DNS: then it is an error.
func unknownField(err error) (path, hint string, ok bool) {
	f, isField := errors.AsType[json.FieldError](err)
	if !isField || !strings.HasPrefix(err.Error(), "unknown field") {
		return "", "", false
	}
	path = f.FieldPath()
	parent, name := splitPath(path)
	if top, _, _ := strings.Cut(path, "."); top == "status" {
		return path, "", true
	}
	if i := slices.IndexFunc(dnsFields, func(d string) bool { return strings.EqualFold(d, name) }); i >= 0 {
		hint = fmt.Sprintf("check its spelling and its place: %s is a field of a pod's spec", dnsFields[i])
	} else if meant, isClose := excerpt.Closest(name, decidingFields); isClose && slices.Contains(decidingParents, parent) {
		hint = fmt.Sprintf("did you mean %s?", meant)
	} else if strings.Contains("."+path, ".dnsConfig.") {
		hint = "dnsConfig has nameservers, searches and options"
	}
	return path, hint, true
}

// isInvalid reports whether a problem is an error, and not an unknown field to ignore.
func isInvalid(problem error) bool {
	_, hint, unknown := unknownField(problem)
	return !unknown || hint != ""
}

// splitPath returns the last key of a path, and the one before it without its index.
func splitPath(path string) (parent, name string) {
	keys := strings.Split(path, ".")
	if len(keys) > 1 {
		parent, _, _ = strings.Cut(keys[len(keys)-2], "[")
	}
	return parent, keys[len(keys)-1]
}

// sortProblems returns the errors among the problems of decoding an object strictly, and the
// unknown fields that are ignored.
func (o origin) sortProblems(problems []error) (errs []error, ignored []UnknownField) {
	for _, p := range problems {
		path, hint, unknown := unknownField(p)
		switch {
		case !unknown:
			field, hint, err := fieldOf(p)
			errs = append(errs, &InputError{Location: o.At(o.path(field)), Err: err, Hint: hint})
		case hint == "":
			ignored = append(ignored, UnknownField{o, path})
		default:
			errs = append(errs, &InputError{Location: o.At(o.path(path)), Err: errUnknownField, Hint: hint})
		}
	}
	return errs, ignored
}
