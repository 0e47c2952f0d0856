// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// MaxManifest is the maximum size of a manifest in bytes. That is enough for about ten
// thousand pods.
const MaxManifest = 32 << 20

// Location and InputError are the places and the errors of package document.
type (
	Location   = document.Location
	InputError = document.InputError
)

// Manifest is the content of a manifest file.
type Manifest struct {
	Workloads []Workload
	Others    []Object // objects without pods, such as Services, in order

	// Notes are about content that was skipped, although its author may expect that it is read: an
	// empty file, a kustomization, pods of a kind that is not read. Each is an *InputError.
	Notes []error

	Unknown []UnknownField // fields that were ignored
}

// Object is an object whose type alone has been decoded.
type Object struct {
	APIVersion, Kind string

	origin
	data []byte
}

// Decode decodes the object into a pointer to its type. It returns the unknown fields that
// were ignored. The error joins one *InputError for each problem.
func (o Object) Decode(into any) (ignored []UnknownField, err error) {
	errs, ignored := o.sortProblems(document.DecodeStrict(o.data, into))
	return ignored, errors.Join(errs...)
}

// Path returns the path of the object in its document, such as "items[2]."; "" outside of lists.
func (o Object) Path() string { return o.item }

// InputError returns an *InputError for a field of the object.
func (o Object) InputError(field string, err error, hint string) error {
	return &InputError{Location: o.At(o.path(field)), Err: err, Hint: hint}
}

// ParseManifest parses YAML documents or a stream of JSON values and returns the pods
// and pod templates in them, with the API's defaults. The error joins one *InputError
// for each problem; objects without a problem are returned beside it.
func ParseManifest(file string, data []byte) (Manifest, error) {
	p := parser{file: file, apiGroups: workloadGroups()}
	p.parse(data)
	return p.Manifest, errors.Join(p.errs...)
}

type parser struct {
	Manifest
	file      string
	doc       *manifestDocument // the current one
	item      string            // path of the current item of a list, such as "items[2]."
	apiGroups *runtime.Scheme   // the API groups of pods and workloads
	errs      []error
}

func (p *parser) parse(data []byte) {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")):
		p.failFile(errors.New("encoded in UTF-16"), "save it as UTF-8")
		return
	case len(data) > MaxManifest:
		p.failFile(fmt.Errorf("larger than %d bytes", MaxManifest), "split it")
		return
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if values, isJSON, err := jsonDocuments(data); isJSON {
		p.values(values, err)
	} else {
		for d := range yamlDocuments(data) {
			p.document(d)
		}
	}
	if p.doc == nil && len(p.errs) == 0 {
		p.Notes = append(p.Notes, &InputError{Location: Location{File: p.file}, Err: errors.New("no Kubernetes object found")})
	}
}

// note records content that is skipped.
func (p *parser) note(field, text, hint string) {
	p.Notes = append(p.Notes, &InputError{Location: p.at(field), Err: errors.New(text), Hint: hint})
}

// failFile records an error about the file as a whole.
func (p *parser) failFile(err error, hint string) {
	p.errs = append(p.errs, &InputError{Location: Location{File: p.file}, Err: err, Hint: hint})
}

// fail records an error about a field of the current object.
func (p *parser) fail(field string, err error, hint string) {
	at := p.at(field)
	if l, ok := errors.AsType[*document.LineError](err); ok {
		at.Line, at.Column, err = l.Line, 0, errors.New(l.Problem)
	}
	p.errs = append(p.errs, &InputError{Location: at, Err: err, Hint: hint})
}

// failAll records each error of a document that cannot be parsed.
func (p *parser) failAll(err error, hint string) {
	for _, e := range excerpt.Unjoin(err) {
		p.fail("", e, hint)
	}
}

// at returns the place of a field of the current object.
func (p *parser) at(field string) Location { return p.origin().At(p.origin().path(field)) }

// origin returns the origin of the current object.
func (p *parser) origin() origin { return origin{p.file, p.doc, p.item} }

// values parses a stream of JSON values. err is the error of the value after them.
func (p *parser) values(values []manifestDocument, err error) {
	for i := range values {
		if string(values[i].text) != "null" {
			p.doc = &values[i]
			p.object(p.doc.text, objectType{})
		}
	}
	if err != nil {
		p.doc = &manifestDocument{number: len(values) + 1, line: 1}
		p.failAll(err, "")
	}
}

// document parses a YAML document.
func (p *parser) document(d manifestDocument) {
	if p.splitList(d) {
		return
	}
	js, err := document.JSON(d.text, d.line)
	switch {
	case err != nil:
		p.doc = &d
		p.failAll(err, syntaxHint(d.text))
	case string(js) != "null":
		p.doc = &d
		p.object(js, objectType{})
	}
}

// syntaxHint returns a hint for a document that is not YAML: it is a template, it is cut off, or it
// has tabs. "" if the reason is another one.
func syntaxHint(text []byte) string {
	trimmed := bytes.TrimSpace(text)
	switch {
	case bytes.Contains(text, []byte("{{")):
		return "the file is a template: render the chart first, as with helm template"
	case bytes.HasPrefix(trimmed, []byte("{")) && !bytes.HasSuffix(trimmed, []byte("}")):
		return "the file begins as JSON and does not end as JSON: write it again, it may be cut off"
	case bytes.HasPrefix(text, []byte("\t")) || bytes.Contains(text, []byte("\n\t")):
		return "indent with spaces: YAML allows no tabs"
	}
	return ""
}

// ErrNotAnObject is the error of a document that is not a Kubernetes object.
var ErrNotAnObject = errors.New("not a Kubernetes object")

// objectType is the type of an object.
type objectType struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func (t objectType) String() string { return strings.TrimSpace(t.APIVersion + " " + t.Kind) }

// itemType returns the type of the items of a typed list, the zero value for v1 List.
func (t objectType) itemType() objectType {
	return objectType{t.APIVersion, strings.TrimSuffix(t.Kind, "List")}
}

// isList reports whether t is v1 List or a list of a kind that is decoded. The names of
// other kinds may end in List without being one.
func (t objectType) isList() bool {
	if t == (objectType{"v1", "List"}) {
		return true
	}
	_, decoded := workloadDecoders[t.itemType()]
	return (decoded || slices.Contains(zoneTypes, t.itemType())) && t.itemType() != t
}

// isKustomization reports whether t is the type of a kustomization. In a file with the name that
// kustomize requires, a kustomization may have no type.
func (t objectType) isKustomization(file string) bool {
	group, _, _ := strings.Cut(t.APIVersion, "/")
	name := filepath.Base(file)
	return group == "kustomize.config.k8s.io" || t == (objectType{}) && (name == "kustomization.yaml" || name == "kustomization.yml")
}

// zoneTypes are the types without pods that DNS names are generated from.
var zoneTypes = []objectType{{"v1", "Namespace"}, {"v1", "Service"}, {"discovery.k8s.io/v1", "EndpointSlice"}}

// object parses one object. inherited is the type of an object that has none of its own,
// as in a PodList.
func (p *parser) object(data []byte, inherited objectType) {
	var t objectType
	if string(data) == "null" {
		p.fail("", errors.New("is null"), "remove the item, or write an object with apiVersion, kind and metadata")
		return
	}
	if err := document.DecodeLarge(data, &t); err != nil {
		p.fail("", fmt.Errorf("%w: %w", ErrNotAnObject, err), "an object has apiVersion, kind and metadata")
		return
	}
	if t == (objectType{}) {
		t = inherited
	}
	switch {
	case t.isKustomization(p.file):
		p.note("", "a kustomization is not read",
			"run kubectl kustomize "+path.Dir(filepath.ToSlash(p.file))+" | dnsconfigurer validate -f -")
	case t == objectType{}:
		p.fail("", fmt.Errorf("%w: apiVersion and kind are missing", ErrNotAnObject), "an object has apiVersion, kind and metadata")
	case t.APIVersion == "":
		p.fail("apiVersion", errors.New("is missing"), "set the API version, such as v1 or apps/v1")
	case t.Kind == "":
		p.fail("kind", errors.New("is missing"), "set the kind, such as Pod or Deployment")
	case t.isList():
		p.list(data, t, inherited)
	default:
		p.workload(data, t)
	}
}

func (p *parser) list(data []byte, t, inherited objectType) {
	if inherited != (objectType{}) {
		p.fail("items", errors.New("a List inside a List is not supported"), "merge them into one List")
		return
	}
	r := document.NewReader("", data)
	read := 0
	err := r.Members(func(key string) error {
		if key != "items" {
			return r.Skip()
		}
		return r.Items(func() error {
			item, err := r.Raw()
			if err == nil {
				p.item = fmt.Sprintf("items[%d].", read)
				p.object(item, t.itemType())
				read++
			}
			return err
		})
	})
	p.item = ""
	if err != nil {
		field, hint, err := fieldOf(err)
		p.fail(field, err, hint)
	}
}
