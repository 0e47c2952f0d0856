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
	prefix string
	value  *V       // nil: no key ends here
	fork   *fork[V] // nil: no key goes on from here, as of most nodes
}

// fork are the children of a node. Who looks for one of them touches no other.
type fork[V any] struct {
	gen      uint64     // the edit that made the node and its fork, and that may still change them
	firsts   string     // the first bytes of the children's prefixes, ascending
	children []*node[V] // in that order
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

// set makes v the value of key; nil removes the key. Nodes of the same gen, which
// no reader has seen, are changed in place: a bulk load copies nothing. gen is not
// 0 and never used again once the tree has been published.
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
		n.insert(gen, i, leaf(key, v))
		return n
	}
	child := n.fork.children[i].set(gen, key, v)
	switch child {
	case n.fork.children[i]:
		return n
	case nil:
		n = n.own(gen)
		n.remove(i)
		return n.shrink(gen)
	}
	n = n.own(gen)
	n.fork.children[i] = child
	return n
}

// leaf is a node without children, and nil if it has no value.
func leaf[V any](prefix string, v *V) *node[V] {
	if v == nil {
		return nil
	}
	return &node[V]{prefix: prefix, value: v}
}

// split puts a node above n where key leaves its prefix.
func (n *node[V]) split(gen uint64, at int, key string, v *V) *node[V] {
	rest := n.own(gen)
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

// shrink restores the invariant of node after a value or a child has gone.
func (n *node[V]) shrink(gen uint64) *node[V] {
	switch {
	case n.fork == nil && n.value == nil:
		return nil
	case n.fork == nil:
		return n
	case n.value != nil || len(n.fork.children) > 1:
		return n
	}
	child := n.fork.children[0].own(gen)
	child.prefix = n.prefix + child.prefix
	return child
}

// own returns n if this edit made it, else a copy that it may change. Leaves, which do not
// tell, are copied each time.
func (n *node[V]) own(gen uint64) *node[V] {
	if n.fork == nil {
		return &node[V]{prefix: n.prefix, value: n.value}
	}
	if n.fork.gen == gen {
		return n
	}
	return &node[V]{n.prefix, n.value, &fork[V]{gen, n.fork.firsts, slices.Clone(n.fork.children)}}
}

// insert makes c the child at i.
func (n *node[V]) insert(gen uint64, i int, c *node[V]) {
	if n.fork == nil {
		n.fork = &fork[V]{gen: gen}
	}
	f := n.fork
	f.children = slices.Insert(f.children, i, c)
	f.firsts = f.firsts[:i] + c.prefix[:1] + f.firsts[i:]
}

// remove takes the child at i away.
func (n *node[V]) remove(i int) {
	f := n.fork
	if len(f.children) == 1 {
		n.fork = nil
		return
	}
	f.children = slices.Delete(f.children, i, i+1)
	f.firsts = f.firsts[:i] + f.firsts[i+1:]
}

func (n *node[V]) child(first byte) *node[V] {
	if n.fork == nil {
		return nil
	}
	if i := strings.IndexByte(n.fork.firsts, first); i >= 0 {
		return n.fork.children[i]
	}
	return nil
}

// search returns where the child is that begins with the byte, or where it would be.
func (n *node[V]) search(first byte) (int, bool) {
	if n.fork == nil {
		return 0, false
	}
	return sort.Find(len(n.fork.firsts), func(i int) int { return int(first) - int(n.fork.firsts[i]) })
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
