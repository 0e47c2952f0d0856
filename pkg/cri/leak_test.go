// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestShim_Leaks starts and stops many sandboxes and compares the goroutines, descriptors
// and memory before and after.
func TestShim_Leaks(t *testing.T) {
	const workers = 8
	h, _ := newHook(t, autopath)
	h.Report = func(Report) {}
	n := newNode(t, h)
	n.runtime.sandboxes = make(chan *runtimeapi.RunPodSandboxRequest, 64)
	go func() {
		for range n.runtime.sandboxes {
		}
	}()
	defer close(n.runtime.sandboxes)
	c := runtimeapi.NewRuntimeServiceClient(n.shimmed)
	sent := sandboxRequest(autopath, kubeletDNS)
	runLifecycles := func(count int) {
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for range count / workers {
					if _, err := c.RunPodSandbox(t.Context(), sent); err != nil {
						t.Error(err)
						return
					}
					_, _ = c.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{})
				}
			})
		}
		wg.Wait()
	}
	runLifecycles(lifecycles / 10) // connect, fill pools
	goroutines, files, heap := countResources(t, 0, 0)
	runLifecycles(lifecycles)
	goroutines2, files2, heap2 := countResources(t, goroutines, files)
	t.Logf("%d lifecycles: goroutines %d -> %d, descriptors %d -> %d, heap %d -> %d bytes",
		lifecycles, goroutines, goroutines2, files, files2, heap, heap2)
	if goroutines2 > goroutines || files2 > files {
		t.Errorf("goroutines %d -> %d, descriptors %d -> %d", goroutines, goroutines2, files, files2)
	}
	if heap2 > heap+1<<20 {
		t.Errorf("heap %d -> %d bytes", heap, heap2)
	}
}

// countResources returns the counts as soon as they are at most the given ones, or once they have
// stopped falling: goroutines and descriptors of finished calls end a little later.
func countResources(t *testing.T, maxGoroutines, maxFiles int) (goroutines, files int, heap uint64) {
	t.Helper()
	count := func() (goroutines, files int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return runtime.NumGoroutine(), len(entries)
	}
	patience := time.Second
	if maxGoroutines > 0 {
		patience = time.Minute
	}
	goroutines, files = count()
	for fell := time.Now(); time.Since(fell) < patience &&
		(goroutines > maxGoroutines || files > maxFiles); time.Sleep(20 * time.Millisecond) {
		if g, f := count(); g < goroutines || f < files {
			goroutines, files, fell = g, f, time.Now()
		}
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return goroutines, files, m.HeapAlloc
}
