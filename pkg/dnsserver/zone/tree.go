// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"iter"
	"slices"
	"sort"
	"strings"
)

// tree is a persistent, ordered map from strings to values: a radix tree whose
// published nodes never change, so that a reader keeps what it has seen without a
// lock while the writer goes on. A changed key costs copies of the nodes on its
// path and of nothing else. The zero tree is empty.
type tree[V any] struct {
	root *node[V]
}

// node has the bytes below its parent's. A node that holds no value has two
// children or more.
type node[V any] struct {
	prefix   string
	children []*node[V] // ascending by the first byte of their prefixes
	firsts   string     // those bytes: who looks for one child need not touch the others
	value    *V         // nil: no key ends here
	gen      uint64     // the edit that made the node, and that may still change it
}

// get returns the value of key, nil if there is none.
func (t tree[V]) get(key string) *V { return get(t, key) }

// get is tree.get for a key that may be in bytes, of which no string has to be made.
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
func (t tree[V]) below(prefix string) bool { return t.seek(prefix) != nil }

// seek returns the node above all keys that begin with prefix, nil if there is none.
func (t tree[V]) seek(prefix string) *node[V] {
	n := t.root
	for n != nil && !strings.HasPrefix(n.prefix, prefix) {
		if !strings.HasPrefix(prefix, n.prefix) {
			return nil
		}
		prefix = prefix[len(n.prefix):]
		n = n.child(prefix[0])
	}
	return n
}

// all yields the values in the order of their keys.
func (t tree[V]) all() iter.Seq[*V] { return t.from("") }

// from yields the values whose keys begin with prefix, in the order of the keys.
func (t tree[V]) from(prefix string) iter.Seq[*V] {
	return func(yield func(*V) bool) {
		if n := t.seek(prefix); n != nil {
			n.all(yield)
		}
	}
}

func (n *node[V]) all(yield func(*V) bool) bool {
	if n.value != nil && !yield(n.value) {
		return false
	}
	for _, c := range n.children {
		if !c.all(yield) {
			return false
		}
	}
	return true
}

// set makes v the value of key; nil removes the key. Nodes of the same gen, which
// no reader has seen, are changed in place: a bulk load copies nothing. gen is not
// 0 and never used again once the tree has been published.
func (t *tree[V]) set(gen uint64, key string, v *V) {
	t.root = t.root.set(gen, key, v)
}

func (n *node[V]) set(gen uint64, key string, v *V) *node[V] {
	if n == nil {
		if v == nil {
			return nil
		}
		return &node[V]{prefix: key, value: v, gen: gen}
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
		n = n.own(gen)
		n.value = v
		return n.shrink(gen)
	}
	i, found := n.search(key[0])
	if !found {
		if v == nil {
			return n
		}
		n = n.own(gen)
		n.insert(i, &node[V]{prefix: key, value: v, gen: gen})
		return n
	}
	child := n.children[i].set(gen, key, v)
	switch child {
	case n.children[i]:
		return n
	case nil:
		n = n.own(gen)
		n.children = slices.Delete(n.children, i, i+1)
		n.firsts = n.firsts[:i] + n.firsts[i+1:]
		return n.shrink(gen)
	}
	n = n.own(gen)
	n.children[i] = child
	return n
}

// split puts a node above n where key leaves its prefix.
func (n *node[V]) split(gen uint64, at int, key string, v *V) *node[V] {
	rest := n.own(gen)
	rest.prefix = rest.prefix[at:]
	up := &node[V]{prefix: key[:at], gen: gen}
	up.insert(0, rest)
	if at == len(key) {
		up.value = v
		return up
	}
	i, _ := up.search(key[at])
	up.insert(i, &node[V]{prefix: key[at:], value: v, gen: gen})
	return up
}

// shrink restores the invariant of node after a value or a child has gone.
func (n *node[V]) shrink(gen uint64) *node[V] {
	switch {
	case n.value != nil || len(n.children) > 1:
		return n
	case len(n.children) == 0:
		return nil
	}
	child := n.children[0].own(gen)
	child.prefix = n.prefix + child.prefix
	return child
}

// own returns n if this edit made it, else a copy that it may change.
func (n *node[V]) own(gen uint64) *node[V] {
	if n.gen == gen {
		return n
	}
	return &node[V]{prefix: n.prefix, children: slices.Clone(n.children), firsts: n.firsts, value: n.value, gen: gen}
}

// insert makes c the child at i.
func (n *node[V]) insert(i int, c *node[V]) {
	n.children = slices.Insert(n.children, i, c)
	n.firsts = n.firsts[:i] + c.prefix[:1] + n.firsts[i:]
}

func (n *node[V]) child(first byte) *node[V] {
	if i := strings.IndexByte(n.firsts, first); i >= 0 {
		return n.children[i]
	}
	return nil
}

// search returns where the child is that begins with the byte, or where it would be.
func (n *node[V]) search(first byte) (int, bool) {
	return sort.Find(len(n.firsts), func(i int) int { return int(first) - int(n.firsts[i]) })
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
