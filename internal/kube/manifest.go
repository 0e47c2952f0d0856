// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
)

// MaxManifest is the size in bytes of the largest manifest that is read. It holds
// about ten thousand pods.
const MaxManifest = 32 << 20

// Location says where in the input something stands: "file:document:field".
type Location struct {
	File     string
	Document int    // 1 is the first; 0: the file as a whole
	Field    string // path from the document; "": the document as a whole

	Line   int    // of the file, where Field begins, in an InputError of ParseManifest; else 0
	Source string // the template in the remark that Helm writes before a document; "": none
}

func (l Location) String() string {
	s := l.File
	if l.Document > 0 {
		s += fmt.Sprintf(":%d", l.Document)
		if l.Field != "" {
			s += ":" + l.Field
		}
	}
	return s
}

// InputError is something in a manifest that cannot be understood.
type InputError struct {
	Location
	Err  error
	Hint string // what to do; "": Err says it
}

func (e *InputError) Error() string { return e.Location.String() + ": " + e.Err.Error() }

func (e *InputError) Unwrap() error { return e.Err }

// Manifest is what a file holds.
type Manifest struct {
	Workloads []Workload
	Others    []Object // those that make no pods, as a Service, in order
}

// Object is an object that was read no further than its type.
type Object struct {
	Location
	APIVersion, Kind string

	data []byte
}

// Decode reads the object into a pointer to its type, as strictly as ParseManifest
// reads workloads. The error joins one *InputError for each thing that is wrong.
func (o Object) Decode(into any) error {
	var errs []error
	for _, p := range document.DecodeStrict(o.data, into) {
		field, hint, err := fieldOf(p)
		errs = append(errs, o.Wrong(field, err, hint))
	}
	return errors.Join(errs...)
}

// Wrong is the error that says where in its file the object is wrong.
func (o Object) Wrong(field string, err error, hint string) error {
	at := o.Location
	at.Field += field
	return &InputError{at, err, hint}
}

// ParseManifest reads YAML documents or a stream of JSON values and returns the
// pods and pod templates in them, with the API's defaults. The error joins one
// *InputError for each thing that is wrong; what is right is returned beside it.
func ParseManifest(file string, data []byte) (Manifest, error) {
	r := reader{file: file, groups: groups()}
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		r.fail(0, "", errors.New("is UTF-16"), "save it as UTF-8")
		return r.Manifest, errors.Join(r.errs...)
	}
	if len(data) > MaxManifest {
		r.fail(0, "", fmt.Errorf("has more than %d bytes", MaxManifest), "split it")
		return r.Manifest, errors.Join(r.errs...)
	}
	found := false
	for p := range r.documents(data) {
		found = true
		r.object(p.json, header{})
	}
	if !found && len(r.errs) == 0 {
		r.fail(0, "", errors.New("holds no Kubernetes object"), "give it a Pod, a workload or a List of them")
	}
	return r.Manifest, errors.Join(r.errs...)
}

type reader struct {
	Manifest
	file   string
	part   *part           // the present one
	item   string          // path to the present item of a list, as "items[2]."
	groups *runtime.Scheme // the API groups of pods and workloads
	errs   []error
}

func (r *reader) fail(document int, field string, err error, hint string) {
	at := Location{File: r.file, Document: document, Field: r.item + field}
	if document > 0 {
		at.Line, at.Source = r.part.lineOf(at.Field), r.part.source()
	}
	r.errs = append(r.errs, &InputError{at, err, hint})
}

// documents yields the documents that hold something, and sets r.part to each.
func (r *reader) documents(data []byte) iter.Seq[*part] {
	return func(yield func(*part) bool) {
		data = bytes.TrimPrefix(data, []byte("\ufeff"))
		values, err := jsonStream(data)
		if err == nil {
			for i := range values {
				r.part = &values[i]
				if !yield(r.part) {
					return
				}
			}
			return
		}
		n := 0
		for text, line := range yamlDocuments(data) {
			n++
			r.part = &part{number: n, line: line, text: text}
			if r.part.json, err = document.JSON(text, line); err != nil {
				r.fail(n, "", err, "")
			} else if string(r.part.json) != "null" && !yield(r.part) {
				return
			}
		}
	}
}

// header is what tells the type of an object.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// item is the type of the items of a list, the zero value for a List of anything.
func (h header) item() header {
	return header{h.APIVersion, strings.TrimSuffix(h.Kind, "List")}
}

// isList tells whether h is a list of what we read. Kinds of others may end in
// List too.
func (h header) isList() bool {
	if h == (header{"v1", "List"}) {
		return true
	}
	_, known := makers[h.item()]
	return (known || slices.Contains(named, h.item())) && h.item() != h
}

// named are the kinds without pods that names are made of.
var named = []header{{"v1", "Namespace"}, {"v1", "Service"}, {"discovery.k8s.io/v1", "EndpointSlice"}}

func (h header) String() string { return strings.TrimSpace(h.APIVersion + " " + h.Kind) }

// object reads one object; inherited is its type when it has none of its own, as
// in a PodList.
func (r *reader) object(data []byte, inherited header) {
	var h header
	if err := document.Decode(data, &h); err != nil {
		r.fail(r.part.number, "", fmt.Errorf("is not a Kubernetes object: %w", err), "an object has apiVersion, kind and metadata")
		return
	}
	if h == (header{}) {
		h = inherited
	}
	switch {
	case h.APIVersion == "":
		r.fail(r.part.number, "apiVersion", errors.New("is missing"), "name the API version, as v1 or apps/v1")
	case h.Kind == "":
		r.fail(r.part.number, "kind", errors.New("is missing"), "name the kind, as Pod or Deployment")
	case h.isList():
		r.list(data, h, inherited)
	default:
		r.workload(data, h)
	}
}

func (r *reader) list(data []byte, h, inherited header) {
	if inherited != (header{}) {
		r.fail(r.part.number, "items", errors.New("a List inside a List"), "make it one List")
		return
	}
	var list struct {
		Items []rawObject `json:"items"`
	}
	if err := document.Decode(data, &list); err != nil {
		field, hint, err := fieldOf(err)
		r.fail(r.part.number, field, err, hint)
		return
	}
	for i, o := range list.Items {
		r.item = fmt.Sprintf("items[%d].", i)
		r.object(o, h.item())
	}
	r.item = ""
}

// rawObject is an object that is decoded later.
type rawObject []byte

func (o *rawObject) UnmarshalJSON(b []byte) error {
	*o = bytes.Clone(b)
	return nil
}
