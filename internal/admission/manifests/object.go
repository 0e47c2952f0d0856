// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// An object is a mapping in YAML that keeps its comments. Fields are named by pointers such
// as spec/volumes/1. After an error its methods do nothing.
type object struct {
	node *yaml.Node
	err  error
}

// decode returns the documents of a file.
func decode(text []byte) (objects []*object, _ error) {
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var document yaml.Node
		if err := d.Decode(&document); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		objects = append(objects, &object{node: document.Content[0]})
	}
}

// encode returns the text of o.
func (o *object) encode() ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	e.CompactSeqIndent()
	err := errors.Join(o.err, e.Encode(o.node), e.Close())
	return b.Bytes(), err
}

// child returns the value of a key of a mapping, or the item at an index of a sequence, nil
// if it does not exist, and its place in n.Content.
func child(n *yaml.Node, key string) (*yaml.Node, int) {
	if n == nil {
		return nil, 0
	}
	if n.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(key); err == nil && i < len(n.Content) {
			return n.Content[i], i
		}
		return nil, 0
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1], i + 1
		}
	}
	return nil, 0
}

// at returns the field at pointer, nil if it does not exist.
func (o *object) at(pointer string) *yaml.Node {
	n := o.node
	for key := range strings.SplitSeq(pointer, "/") {
		n, _ = child(n, key)
	}
	return n
}

// text returns the string at pointer, "" if it does not exist.
func (o *object) text(pointer string) string {
	if n := o.at(pointer); n != nil {
		return n.Value
	}
	return ""
}

// set sets the field at pointer, which must exist.
func (o *object) set(pointer string, value any) {
	n := o.at(pointer)
	if n == nil {
		o.err = errors.Join(o.err, fmt.Errorf("no field %s", pointer))
		return
	}
	var v yaml.Node
	if err := v.Encode(value); err != nil {
		o.err = errors.Join(o.err, err)
		return
	}
	if v.Kind == yaml.SequenceNode {
		v.Style = n.Style
	}
	if n.Style&yaml.LiteralStyle != 0 {
		v.Style = yaml.LiteralStyle
	}
	n.Kind, n.Tag, n.Value, n.Content, n.Style = v.Kind, v.Tag, v.Value, v.Content, v.Style
}

// add adds a key to the mapping at pointer, which must exist.
func (o *object) add(pointer, key string, value any) {
	n := o.node
	if pointer != "" {
		n = o.at(pointer)
	}
	var k, v yaml.Node
	if err := errors.Join(k.Encode(key), v.Encode(value)); err != nil || n == nil {
		o.err = errors.Join(o.err, err, fmt.Errorf("adding %s to %q", key, pointer))
		return
	}
	n.Content = append(n.Content, &k, &v)
}

// remove removes the key or the item at pointer, which must exist.
func (o *object) remove(pointer string) {
	parent, key := o.node, pointer
	if i := strings.LastIndexByte(pointer, '/'); i >= 0 {
		parent, key = o.at(pointer[:i]), pointer[i+1:]
	}
	found, i := child(parent, key)
	switch {
	case found == nil:
		o.err = errors.Join(o.err, fmt.Errorf("no field %s", pointer))
	case parent.Kind == yaml.SequenceNode:
		parent.Content = append(parent.Content[:i:i], parent.Content[i+1:]...)
	default:
		parent.Content = append(parent.Content[:i-1:i-1], parent.Content[i+1:]...)
	}
}
