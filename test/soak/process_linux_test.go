// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// services is the number of Services in the cluster. Number i is web-i in the namespace
// default, with the address 10.96.0.0 + i.
const services = 1000

// server is `dnsconfigurer dns` in its own process.
type server struct {
	process.Process
	addr string // of DNS
	http string // of its metrics
}

// start builds the command as `make build` does, and runs it until the test ends. It
// forwards to upstream. The process must exit successfully and without a panic.
func start(t *testing.T, upstream string) *server {
	t.Helper()
	dir := t.TempDir()
	manifests := filepath.Join(dir, "manifests")
	if err := errors.Join(os.Mkdir(manifests, 0o700),
		os.WriteFile(filepath.Join(manifests, "services.yaml"), cluster(), 0o600)); err != nil {
		t.Fatal(err)
	}
	addrs := process.Loopback(t, 2)
	s := &server{addr: addrs[0], http: addrs[1]}
	s.Program, s.LogFile = process.Build(t, dir), filepath.Join(dir, "log")
	s.Args = []string{"dns", "--listen", s.addr, "--manifests", manifests, "--upstream", upstream, "--http", s.http}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil || strings.Contains(s.Log(), "panic") {
			t.Errorf("the server ended: %v\n%s", err, s.Log())
		}
	})
	for deadline := time.Now().Add(2 * time.Minute); process.Page(s.http, "/readyz") != "ok\n"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the server is not ready:\n%s", s.Log())
		}
	}
	return s
}

func cluster() []byte {
	var b bytes.Buffer
	b.WriteString("apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n")
	for i := range services {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Service\nmetadata: {name: web-%d, namespace: default}\n"+
			"spec: {clusterIP: %s, ports: [{name: http, port: 80}]}\n", i, serviceAddress(i))
	}
	return b.Bytes()
}

func serviceAddress(i int) string { return fmt.Sprintf("10.96.%d.%d", i/256, i%256) }

// isRight reports whether reply is the reply for Service i.
func isRight(reply *dns.Msg, i int) bool {
	if reply.Rcode != dns.RcodeSuccess || len(reply.Answer) != 1 {
		return false
	}
	a, ok := reply.Answer[0].(*dns.A)
	return ok && a.A.String() == serviceAddress(i)
}

// count returns the value of a counter.
func (s *server) count(t *testing.T, metric string) int {
	t.Helper()
	n, ok := process.Metrics(s.http)[metric]
	if !ok {
		t.Fatalf("there is no %s", metric)
	}
	return int(n)
}

// resident returns the process' resident memory in MiB: the present size and the peak, without
// pages of files, which the kernel drops before a cgroup exceeds its limit.
func (s *server) resident(t *testing.T) (now, most int) {
	t.Helper()
	resident, err1 := s.Memory("VmRSS")
	peak, err2 := s.Memory("VmHWM")
	files, err3 := s.Memory("RssFile")
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return (resident - files) / 1024, (peak - files) / 1024
}
