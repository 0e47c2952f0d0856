// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package daemon_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestMain is also the service of TestSocket: a program that prints what Socket returns and
// serves one client.
func TestMain(m *testing.M) {
	if os.Getenv("SERVE") == "" {
		os.Exit(m.Run())
	}
	f, err := daemon.Socket()
	fmt.Printf("%v %v\n", f != nil, err)
	if again, err := daemon.Socket(); again != nil || err != nil {
		fmt.Println("the second call returns a socket")
	}
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "LISTEN_") {
			fmt.Println("still in the environment:", v)
		}
	}
	if f != nil {
		l, err := net.FileListener(f)
		if err != nil {
			fmt.Println(err)
			return
		}
		if c, err := l.Accept(); err == nil {
			_, _ = c.Write([]byte("hello"))
			c.Close()
		}
	}
}

// TestSocket_Environment starts a program as a service manager does. The shell sets the
// process ID, which stays the same when it executes the program.
func TestSocket_Environment(t *testing.T) {
	const tooMany = "got 2 sockets (a:b) from the service manager, want one"
	for _, tt := range []struct {
		name, variables, want string
	}{
		{"one socket", "LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=a", "true <nil>"},
		{"no socket", "LISTEN_PID=$$ LISTEN_FDS=0", "false <nil>"},
		{"no service manager", "", "false <nil>"},
		{"for another process", "LISTEN_PID=1 LISTEN_FDS=1", "false <nil>"},
		{"two sockets", "LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=a:b", "false " + tooMany},
		{"invalid process ID", "LISTEN_PID=x LISTEN_FDS=1", `false LISTEN_PID "x": not a process ID`},
		{"invalid number", "LISTEN_PID=$$ LISTEN_FDS=one", `false LISTEN_FDS "one": not a number of sockets`},
		{"negative number", "LISTEN_PID=$$ LISTEN_FDS=-1", `false LISTEN_FDS "-1": not a number of sockets`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"}))(t)
			defer l.Close()
			f := must.Get(l.File())(t)
			defer f.Close()
			client, err := net.Dial("unix", l.Addr().String()) // waits in the backlog
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			cmd := exec.Command("sh", "-c", tt.variables+` exec "$0"`, os.Args[0])
			cmd.Env = append(os.Environ(), "SERVE=1")
			cmd.ExtraFiles = []*os.File{f}
			out, err := cmd.CombinedOutput()
			got := strings.TrimSpace(string(out))
			if err != nil || !strings.HasPrefix(got, tt.want) || strings.Contains(got, "\n") {
				t.Errorf("%v, the program prints %q, want %q", err, got, tt.want)
			}
			if strings.HasPrefix(tt.want, "true") {
				b := make([]byte, 5)
				if _, err := client.Read(b); err != nil || string(b) != "hello" {
					t.Errorf("the client receives %q, %v", b, err)
				}
			}
		})
	}
}
