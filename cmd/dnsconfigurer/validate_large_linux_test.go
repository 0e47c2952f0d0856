// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// TestValidate_LargeList: the 5,000 pods of a cluster, 18 MB as `kubectl get pods -A -o yaml` prints them, are read one by
// one. The peak was 170 MB, and 685 MB when the list was read as a whole.
func TestValidate_LargeList(t *testing.T) {
	const limit = 200 << 10 // KiB
	dir := t.TempDir()
	program := process.Build(t, dir)
	var list strings.Builder
	list.WriteString("apiVersion: v1\nkind: List\nitems:\n")
	for i := range 5000 {
		fmt.Fprintf(&list, "- apiVersion: v1\n  kind: Pod\n  metadata: {name: web-%d, namespace: shop}\n  spec:\n"+
			"    dnsPolicy: ClusterFirst\n    containers:\n    - name: web\n      image: web\n      env:\n", i)
		for k := range 45 {
			fmt.Fprintf(&list, "      - name: VARIABLE_%d\n        value: value %d of a pod with a long environment\n", k, k)
		}
	}
	list.WriteString("- apiVersion: v1\n  kind: Pod\n  metadata: {name: last}\n  spec: {dnsPolicy: Custom}\n")
	file, log := filepath.Join(dir, "pods.yaml"), filepath.Join(dir, "log")
	if err := os.WriteFile(file, []byte(list.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &process.Process{Program: program, LogFile: log, Args: []string{"validate", "-f", file}}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	peak := 0
	for size, err := p.Memory("VmHWM"); err == nil && size > 0; size, err = p.Memory("VmHWM") {
		peak = size
		time.Sleep(10 * time.Millisecond)
	}
	p.Kill()
	out, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(out), "error: Pod default/last: items[5000].spec.dnsPolicy: ") ||
		!strings.Contains(string(out), "5001 objects checked, 1 error, ") {
		t.Errorf("%d bytes: %v\n%s", list.Len(), err, out)
	}
	if t.Logf("peak of the memory: %d KiB", peak); peak == 0 || peak > limit {
		t.Errorf("limit %d KiB", limit)
	}
}
