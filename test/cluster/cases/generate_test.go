// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"slices"
	"testing"
)

// TestGenerate checks that a seed always gives the same cases, so that a failure can be
// reproduced, and another seed gives others.
func TestGenerate(t *testing.T) {
	lines := func(seed uint64) []string {
		var s []string
		for c := range Generate(seed, 500) {
			s = append(s, c.String())
		}
		return s
	}
	if !slices.Equal(lines(1), lines(1)) {
		t.Error("the same seed gives other cases")
	}
	if slices.Equal(lines(1)[:10], lines(2)[:10]) {
		t.Error("another seed gives the same cases")
	}
}

// TestTwin checks that a twin has no divergence, and that its case is not modified.
func TestTwin(t *testing.T) {
	for c := range Generate(3, 20000) {
		before := c.String()
		names, twin := Diverge(c)
		if c.String() != before {
			t.Fatalf("%s is changed by its twin", before)
		}
		if left, _ := Diverge(twin); len(left) > 0 {
			t.Errorf("%s: %q without %q", twin.String(), left, names)
		}
	}
}
