// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// The tree equals a map after random edits, and published trees do not change.
func TestTree_RandomEdits(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	key := func() string {
		b := make([]byte, random.IntN(6))
		for i := range b {
			b[i] = 'a' + byte(random.IntN(3))
		}
		return string(b)
	}
	type version struct {
		tree tree[int]
		want map[string]int
	}
	var now tree[int]
	want := map[string]int{}
	var published []version
	for gen := uint64(1); gen <= 300; gen++ {
		for range random.IntN(20) {
			k, v := key(), random.Int()
			if random.IntN(3) == 0 {
				now.set(gen, k, nil)
				delete(want, k)
			} else {
				now.set(gen, k, &v)
				want[k] = v
			}
		}
		published = append(published, version{now, maps.Clone(want)})
	}
	for gen, v := range published {
		checkTree(t, v.tree, v.want)
		if t.Failed() {
			t.Fatalf("the tree of edit %d, when %d had been made", gen+1, len(published))
		}
	}
}

func checkTree(t *testing.T, got tree[int], want map[string]int) {
	t.Helper()
	keys := slices.Sorted(maps.Keys(want))
	var values []int
	for v := range got.all() {
		values = append(values, *v)
	}
	for i, k := range keys {
		if len(values) != len(keys) || values[i] != want[k] {
			t.Errorf("all = %v, want those of %v", values, keys)
			return
		}
	}
	for k := range combinations("abc", 5) {
		v, ok := want[k]
		if p := got.get(k); ok != (p != nil) || ok && *p != v {
			t.Errorf("get %q = %v, want %d, %t", k, p, v, ok)
		}
		below := slices.ContainsFunc(keys, func(s string) bool { return strings.HasPrefix(s, k) })
		if got.below(k) != below {
			t.Errorf("below %q = %t", k, !below)
		}
	}
	checkNode(t, got.root)
}

// checkNode checks the invariants of node.
func checkNode(t *testing.T, n *node[int]) {
	t.Helper()
	if n == nil {
		return
	}
	if n.fork == nil {
		if n.value == nil {
			t.Errorf("leaf %q has no value", n.prefix)
		}
		return
	}
	f := n.fork
	if len(f.children) == 0 || n.value == nil && len(f.children) < 2 || len(f.firstBytes) != len(f.children) {
		t.Fatalf("node %q has %d children and the first bytes of %d, and a value: %t", n.prefix,
			len(f.children), len(f.firstBytes), n.value != nil)
	}
	for i, c := range f.children {
		if f.firstBytes[i] != c.prefix[0] {
			t.Errorf("child %d of %q begins with %q, not with %q", i, n.prefix, c.prefix[0], f.firstBytes[i])
		}
		if i > 0 && f.firstBytes[i-1] >= f.firstBytes[i] {
			t.Errorf("children of %q out of order", n.prefix)
		}
		checkNode(t, c)
	}
}

// combinations yields every string of up to n characters of alphabet.
func combinations(alphabet string, n int) map[string]bool {
	all := map[string]bool{"": true}
	for range n {
		for s := range maps.Clone(all) {
			for _, c := range alphabet {
				all[s+string(c)] = true
			}
		}
	}
	return all
}
