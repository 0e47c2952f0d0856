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

// BenchmarkVerdict measures the check of a decoded object. It uses all vectors in turn,
// including those at the limits of 2048 characters; p99-ns is over all of them.
func BenchmarkVerdict(b *testing.B) {
	table, err := vectors.Load()
	if err != nil {
		b.Fatal(err)
	}
	type input struct {
		rules *admission.Rules
		o     admission.Object
	}
	all := make([]input, len(table))
	for i, v := range table {
		all[i] = input{v.Node.Rules(b), object(b, v)}
	}
	var times []time.Duration
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		in := all[i%len(all)]
		start := time.Now()
		admission.NewVerdict(in.o, vectors.Check(b, in.rules, in.o))
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds()), "p99-ns")
}
