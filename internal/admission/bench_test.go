// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"slices"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// BenchmarkVerdict is the judgement of an object that is decoded: every vector in
// turn, those at the limits of 2048 characters too. p99-ns is over all of them.
func BenchmarkVerdict(b *testing.B) {
	table, err := vectors.Load()
	if err != nil {
		b.Fatal(err)
	}
	type judged struct {
		rules *admission.Rules
		o     admission.Object
	}
	all := make([]judged, len(table))
	for i, v := range table {
		all[i] = judged{v.Node.Rules(b), object(b, v)}
	}
	var times []time.Duration
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		j := all[i%len(all)]
		start := time.Now()
		admission.NewVerdict(j.o, j.rules.Check(j.o))
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds()), "p99-ns")
}
