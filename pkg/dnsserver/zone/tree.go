// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"bytes"
	"iter"
	"slices"
	"sort"
	"strings"
)

// tree is a persistent, ordered map from strings to values. It is a radix tree whose published nodes never change, so
// that readers need no lock. A change copies only the nodes on the path of its key. The zero tree is empty.
type tree[V any] struct {
	root *node[V]
}

// node holds the bytes of a key below those of its parent. A node without a value has at least two children.
type node[V any] struct {
	prefix string
	value  *V       // nil: no key ends here
	fork   *fork[V] // nil for most nodes: no longer key has this prefix
}

// fork holds the children of a node. The search for a child touches no other child.
type fork[V any] struct {
	gen        uint64     // the edit that created the node and its fork, and may change them in place
	firstBytes []byte     // of the prefixes of children, ascending
	children   []*node[V] // in the order of firstBytes
}

// get returns the value of key, or nil.
func (t tree[V]) get(key string) *V { return get(t, key) }

// get is tree.get for a key in bytes, without a conversion.
func get[V any, K string | []byte](t tree[V], key K) *V {
	n := t.root
	for n != nil && len(key) >= len(n.prefix) && string(key[:len(n.prefix)]) == n.prefix {
		key = key[len(n.prefix):]
		if len(key) == 0 {
			return n.value
		}
		n = n.child(key[0])
	}
	return nil
}

// below reports whether any key begins with prefix.
func (t tree[V]) below(prefix string) bool {
	n := t.root
	for n != nil && !strings.HasPrefix(n.prefix, prefix) {
		if !strings.HasPrefix(prefix, n.prefix) {
			return false
		}
		prefix = prefix[len(n.prefix):]
		n = n.child(prefix[0])
	}
	return n != nil
}

// all yields the values in the order of their keys.
func (t tree[V]) all() iter.Seq[*V] {
	return func(yield func(*V) bool) {
		if t.root != nil {
			t.root.all(yield)
		}
	}
}

func (n *node[V]) all(yield func(*V) bool) bool {
	if n.value != nil && !yield(n.value) {
		return false
	}
	if n.fork == nil {
		return true
	}
	for _, c := range n.fork.children {
		if !c.all(yield) {
			return false
		}
	}
	return true
}

// set sets the value of key; nil removes the key. Nodes of the same gen are not published yet and are changed in
// place, so that a bulk load copies nothing. gen must not be 0, nor be used again after the tree has been published.
func (t *tree[V]) set(gen uint64, key string, v *V) {
	t.root = t.root.set(gen, key, v)
}

func (n *node[V]) set(gen uint64, key string, v *V) *node[V] {
	if n == nil {
		return leaf(key, v)
	}
	common := commonPrefix(n.prefix, key)
	if common < len(n.prefix) {
		if v == nil {
			return n
		}
		return n.split(gen, common, key, v)
	}
	key = key[common:]
	if key == "" {
		n = n.editable(gen)
		n.value = v
		return n.normalize(gen)
	}
	i, found := n.search(key[0])
	if !found {
		if v == nil {
			return n
		}
		n = n.editable(gen)
		n.insert(gen, i, leaf(key, v))
		return n
	}
	child := n.fork.children[i].set(gen, key, v)
	switch child {
	case n.fork.children[i]:
		return n
	case nil:
		n = n.editable(gen)
		n.remove(i)
		return n.normalize(gen)
	}
	n = n.editable(gen)
	n.fork.children[i] = child
	return n
}

// leaf returns a node without children, or nil if v is nil.
func leaf[V any](prefix string, v *V) *node[V] {
	if v == nil {
		return nil
	}
	return &node[V]{prefix: prefix, value: v}
}

// split inserts a node above n at the offset where key differs from its prefix.
func (n *node[V]) split(gen uint64, at int, key string, v *V) *node[V] {
	rest := n.editable(gen)
	rest.prefix = rest.prefix[at:]
	up := &node[V]{prefix: key[:at]}
	up.insert(gen, 0, rest)
	if at == len(key) {
		up.value = v
		return up
	}
	i, _ := up.search(key[at])
	up.insert(gen, i, leaf(key[at:], v))
	return up
}

// normalize restores the invariant of node after a value or a child has been removed.
func (n *node[V]) normalize(gen uint64) *node[V] {
	switch {
	case n.fork == nil && n.value == nil:
		return nil
	case n.fork == nil:
		return n
	case n.value != nil || len(n.fork.children) > 1:
		return n
	}
	child := n.fork.children[0].editable(gen)
	child.prefix = n.prefix + child.prefix
	return child
}

// editable returns n if the edit created it, else a copy. Leaves do not record their edit and are always copied.
func (n *node[V]) editable(gen uint64) *node[V] {
	if n.fork == nil {
		return &node[V]{prefix: n.prefix, value: n.value}
	}
	if n.fork.gen == gen {
		return n
	}
	return &node[V]{n.prefix, n.value, &fork[V]{gen, slices.Clone(n.fork.firstBytes), slices.Clone(n.fork.children)}}
}

// insert inserts c as the child at i.
func (n *node[V]) insert(gen uint64, i int, c *node[V]) {
	if n.fork == nil {
		n.fork = &fork[V]{gen: gen}
	}
	f := n.fork
	f.children = slices.Insert(f.children, i, c)
	f.firstBytes = slices.Insert(f.firstBytes, i, c.prefix[0])
}

// remove removes the child at i.
func (n *node[V]) remove(i int) {
	f := n.fork
	if len(f.children) == 1 {
		n.fork = nil
		return
	}
	f.children = slices.Delete(f.children, i, i+1)
	f.firstBytes = slices.Delete(f.firstBytes, i, i+1)
}

func (n *node[V]) child(first byte) *node[V] {
	if n.fork == nil {
		return nil
	}
	if i := bytes.IndexByte(n.fork.firstBytes, first); i >= 0 {
		return n.fork.children[i]
	}
	return nil
}

// search returns the index of the child that begins with first, or the index at which to insert it.
func (n *node[V]) search(first byte) (int, bool) {
	if n.fork == nil {
		return 0, false
	}
	return sort.Find(len(n.fork.firstBytes), func(i int) int { return int(first) - int(n.fork.firstBytes[i]) })
}

func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
