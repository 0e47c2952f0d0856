// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"os"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	var table Table
	table.Add("CPU", "CoreDNS", 20, "us")
	table.Add("CPU", Reference, 5, "us")
	table.Add("memory", "CoreDNS", 200, "MB")
	table.Add("lookups", "CoreDNS", 1234.5, "")
	want := `| what | server | figure | dnsconfigurer / it |
|---|---|---|---|
| CPU | CoreDNS | 20 us | 0.25 |
| CPU | dnsconfigurer | 5 us | - |
| memory | CoreDNS | 200 MB | - |
| lookups | CoreDNS | 1234 | - |
`
	if got := table.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestPercentile(t *testing.T) {
	values := []float64{4, 1, 3, 2}
	for p, want := range map[int]float64{0: 1, 25: 1, 50: 2, 51: 3, 99: 4, 100: 4} {
		if got := Percentile(values, p); got != want {
			t.Errorf("%d %%: %v, want %v", p, got, want)
		}
	}
	if Median(nil) != 0 {
		t.Error("the median of nothing is not 0")
	}
}

// TestSelf: this process uses the processor until that is measured, and has memory.
func TestSelf(t *testing.T) {
	for {
		d, err := CPU(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if d >= 2*tick {
			break
		}
	}
	if n, err := Resident(os.Getpid()); err != nil || n < 1<<20 {
		t.Error(n, err)
	}
	if _, err := CPU(1 << 30); err == nil || !strings.Contains(err.Error(), "/proc/1073741824/stat") {
		t.Error(err)
	}
}
