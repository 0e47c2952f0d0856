// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

const (
	socket = "/run/dnsconfigurer/shim.sock"

	// succeeded begins the client's reply to a line of its standard input.
	succeeded = "succeeded"
)

// TestMain is also the clients on the machine.
func TestMain(m *testing.M) {
	var err error
	path := os.Getenv("KUBELET_PATH")
	switch {
	case path != "":
		err = fetch(path)
	case os.Getenv("CRI_CLIENT") != "":
		err = callRuntime()
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// callRuntime calls Version over one connection, as a kubelet does, until standard input ends. It
// prints the error of each failed call. After a line of standard input it prints a line as soon as
// a call has succeeded that began later.
func callRuntime() error {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}))
	if err != nil {
		return err
	}
	defer conn.Close()
	requests := make(chan struct{})
	go func() {
		defer close(requests)
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			requests <- struct{}{}
		}
	}()
	runtime := runtimeapi.NewRuntimeServiceClient(conn)
	requested := false
	for calls := 1; ; calls++ {
		select {
		case _, ok := <-requests:
			if !ok {
				return nil
			}
			requested = true
		case <-time.After(10 * time.Millisecond):
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // the kubelet's limit
		_, err := runtime.Version(ctx, &runtimeapi.VersionRequest{})
		cancel()
		switch {
		case err != nil:
			fmt.Println(strings.ReplaceAll(err.Error(), "\n", " "))
		case requested:
			fmt.Println(succeeded, calls)
			requested = false
		}
	}
}

// client calls the container runtime from the machine while it runs.
type client struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string
}

// installClient copies the client to the machine.
func (m *machine) installClient(t *testing.T) {
	t.Helper()
	program := must.Get(os.Executable())(t)
	run(t, "cp", program, filepath.Join(m.root, "usr/local/bin/client"))
}

// startClient starts the client and returns when a call has succeeded.
func (m *machine) startClient(t *testing.T) *client {
	t.Helper()
	c := &client{cmd: m.command("env", "CRI_CLIENT=1", "client"), lines: make(chan string)}
	stdin, err1 := c.cmd.StdinPipe()
	stdout, err2 := c.cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	c.stdin = stdin
	must.Succeed(t, c.cmd.Start())
	go func() {
		defer close(c.lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			c.lines <- scanner.Text()
		}
	}()
	t.Cleanup(c.stop)
	c.await(t)
	return c
}

// failures are failed calls: their number, and the first errors.
type failures struct {
	n     int
	first []string
}

func (f *failures) add(line string) {
	if f.n++; f.n <= 5 {
		f.first = append(f.first, line)
	}
}

func (f failures) String() string { return fmt.Sprintf("%d failed calls, such as %q", f.n, f.first) }

// await returns when a call that began after now has succeeded, and the failed calls before.
func (c *client) await(t *testing.T) (failed failures) {
	t.Helper()
	if _, err := io.WriteString(c.stdin, "\n"); err != nil {
		t.Fatalf("the client has ended: %v", err)
	}
	timeout := time.After(patience)
	for {
		select {
		case line, ok := <-c.lines:
			switch {
			case !ok:
				t.Fatalf("the client has ended: %v", failed)
			case strings.HasPrefix(line, succeeded):
				return failed
			}
			failed.add(line)
		case <-timeout:
			t.Fatalf("no call succeeds within %v: %v", patience, failed)
		}
	}
}

// stop ends the client.
func (c *client) stop() {
	c.stdin.Close()
	for range c.lines { // until the client has ended
	}
	_ = c.cmd.Wait()
}
