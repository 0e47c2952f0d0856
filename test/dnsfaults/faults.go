// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsfaults

import (
	"embed"
	"fmt"
	"maps"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed testdata
var files embed.FS

// Object is an object of the API as JSON.
type Object map[string]any

// Objects are the objects of a cluster by key: "Kind namespace/name" or "Kind name".
type Objects map[string]Object

// Fault is a change of the healthy cluster.
type Fault struct {
	Name     string   `json:"fault"`
	Finds    []string `json:"finds"`    // the codes of all findings in the objects
	Severity string   `json:"severity"` // of the first; "": the first that its check has
	Evidence string   `json:"evidence"` // a part of one line of the evidence of the first code
	Object   string   `json:"object"`   // of one of these findings; "": any

	Merge  map[string]Object `json:"merge"`  // by key: JSON merge patches (RFC 7396)
	Delete []string          `json:"delete"` // keys
	Create []Object          `json:"create"`
}

// Healthy returns the objects of the healthy cluster, and their keys in the order in which they
// can be created.
func Healthy() (objects Objects, order []string, err error) {
	text, err := files.ReadFile("testdata/healthy.yaml")
	if err != nil {
		return nil, nil, err
	}
	objects = Objects{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var o Object
		if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
			return nil, nil, err
		}
		key := o.Key()
		if objects[key] != nil {
			return nil, nil, fmt.Errorf("%s twice", key)
		}
		objects[key] = o
		order = append(order, key)
	}
	return objects, order, nil
}

// Load returns the faults.
func Load() ([]Fault, error) { return load("testdata/faults.yaml") }

// Installers returns the changes of the healthy cluster that make it one of another installer, which is healthy.
func Installers() ([]Fault, error) { return load("testdata/installers.yaml") }

// Variants returns the changes of the healthy cluster to others without any finding.
func Variants() ([]Fault, error) { return load("testdata/variants.yaml") }

func load(path string) (faults []Fault, err error) {
	text, err := files.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return faults, yaml.UnmarshalStrict(text, &faults)
}

// Key returns the kind, the namespace and the name of an object.
func (o Object) Key() string {
	metadata, _ := o["metadata"].(map[string]any)
	kind, name := fmt.Sprint(o["kind"]), fmt.Sprint(metadata["name"])
	if namespace, ok := metadata["namespace"].(string); ok {
		return kind + " " + namespace + "/" + name
	}
	return kind + " " + name
}

// Apply returns the objects with the fault. It does not change objects.
func (f Fault) Apply(objects Objects) (Objects, error) {
	changed := maps.Clone(objects)
	for key, patch := range f.Merge {
		if changed[key] == nil {
			return nil, fmt.Errorf("fault %q: there is no %s", f.Name, key)
		}
		changed[key] = merge(map[string]any(changed[key]), map[string]any(patch)).(map[string]any)
	}
	for _, key := range f.Delete {
		if changed[key] == nil {
			return nil, fmt.Errorf("fault %q: there is no %s", f.Name, key)
		}
		delete(changed, key)
	}
	for _, o := range f.Create {
		changed[o.Key()] = o
	}
	return changed, nil
}

// merge applies a JSON merge patch without changing target.
func merge(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	result := map[string]any{}
	if fields, ok := target.(map[string]any); ok {
		maps.Copy(result, fields)
	}
	for name, value := range changes {
		if value == nil {
			delete(result, name)
			continue
		}
		result[name] = merge(result[name], value)
	}
	return result
}
