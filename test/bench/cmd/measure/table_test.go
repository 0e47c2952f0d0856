// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestPercentile(t *testing.T) {
	values := []float64{4, 1, 3, 2}
	for p, want := range map[int]float64{0: 1, 25: 1, 50: 2, 51: 3, 99: 4, 100: 4} {
		if got := percentile(values, p); got != want {
			t.Errorf("%d %%: %v, want %v", p, got, want)
		}
	}
	if median(nil) != 0 {
		t.Error("the median of nothing is not 0")
	}
}
