// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
)

// A reader gets a snapshot, uses it, and waits for the next one.
func Example() {
	dir, _ := os.MkdirTemp("", "hostresolv")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "resolv.conf")
	os.WriteFile(path, []byte("nameserver 192.0.2.1\n"), 0o644)

	w := hostresolv.New(hostresolv.Config{Path: path, Poll: time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()

	host, newer := w.Current()
	fmt.Print(host.File.Config())
	os.Remove(path)
	<-newer
	host, _ = w.Current()
	fmt.Print(host.File.Config())
	fmt.Println("missing:", os.IsNotExist(host.Problem))

	cancel()
	fmt.Println("Run:", <-done)
	// Output:
	// nameserver 192.0.2.1
	// nameserver 192.0.2.1
	// missing: true
	// Run: <nil>
}
