// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsfaults

import (
	"embed"
	"fmt"
	"maps"
	"slices"
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
	Evidence string   `json:"evidence"` // a part of one line of the evidence of the first code
	Object   string   `json:"object"`   // of one of these findings; "": any

	Merge  map[string]Object `json:"merge"`  // by key: JSON merge patches (RFC 7396)
	Delete []string          `json:"delete"` // keys
	Create []Object          `json:"create"`

	// Live is set if the change has the same effect in a cluster with controllers and a kubelet.
	// Follows are the codes of what they make of it, which are found there in addition to Finds.
	Live    bool     `json:"live"`
	Follows []string `json:"follows"`
	Flags   []string `json:"flags"` // of the command, without which it does not find the fault
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
func Load() (faults []Fault, err error) {
	text, err := files.ReadFile("testdata/faults.yaml")
	if err != nil {
		return nil, err
	}
	return faults, yaml.UnmarshalStrict(text, &faults)
}

// LoadLive returns the faults for a cluster with controllers and a kubelet: those of Load that it can
// have, and others.
func LoadLive() (faults []Fault, err error) {
	if faults, err = Load(); err != nil {
		return nil, err
	}
	faults = slices.DeleteFunc(faults, func(f Fault) bool { return !f.Live })
	text, err := files.ReadFile("testdata/live.yaml")
	if err != nil {
		return nil, err
	}
	var others []Fault
	err = yaml.UnmarshalStrict(text, &others)
	return append(faults, others...), err
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

// Name returns the name of an object.
func (o Object) Name() string { return fmt.Sprint(o["metadata"].(map[string]any)["name"]) }

// Collection returns the path of the objects of a kind in the API.
func (o Object) Collection() string {
	path := "/apis/" + fmt.Sprint(o["apiVersion"])
	if o["apiVersion"] == "v1" {
		path = "/api/v1"
	}
	if namespace, ok := o["metadata"].(map[string]any)["namespace"]; ok {
		path += fmt.Sprintf("/namespaces/%v", namespace)
	}
	resource := strings.ToLower(fmt.Sprint(o["kind"])) + "s"
	if before, ok := strings.CutSuffix(resource, "ys"); ok {
		resource = before + "ies"
	}
	return path + "/" + resource
}

// Path returns the path of an object in the API.
func (o Object) Path() string { return o.Collection() + "/" + o.Name() }

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

// Changed returns the keys of the objects in which two sets differ because of f, in order.
func (f Fault) Changed() []string {
	keys := slices.Concat(slices.Collect(maps.Keys(f.Merge)), f.Delete)
	for _, o := range f.Create {
		keys = append(keys, o.Key())
	}
	slices.Sort(keys)
	return keys
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

// Undo returns the JSON merge patch that restores an object, as it was before patch changed it.
func Undo(patch, before Object) Object {
	undo := Object{}
	for name, change := range patch {
		value, ok := before[name]
		inner, isMap := change.(map[string]any)
		fields, hasFields := value.(map[string]any)
		switch {
		case !ok:
			undo[name] = nil
		case isMap && hasFields:
			undo[name] = map[string]any(Undo(inner, fields))
		default:
			undo[name] = value
		}
	}
	return undo
}

// Merge returns an object with a JSON merge patch.
func Merge(o, patch Object) Object {
	return merge(map[string]any(o), map[string]any(patch)).(map[string]any)
}
