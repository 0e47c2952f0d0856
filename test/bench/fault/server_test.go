// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/spec"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/world"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// server is a dnsconfigurer dns with the same addresses after a restart.
type server struct {
	process.Process
	address string // of queries
	http    string
}

// newServer returns a server that is not running. It forwards to a resolver of the test.
func newServer(t *testing.T, kubeconfig string, fields ...string) *server {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "kubeconfig")
	config := filepath.Join(dir, "dns.yaml")
	text := "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: DNSConfiguration\npods: disabled\n" + strings.Join(fields, "\n")
	must.Succeed(t, errors.Join(os.WriteFile(file, []byte(kubeconfig), 0o600), os.WriteFile(config, []byte(text), 0o600)))
	addrs := process.Loopback(t, 2)
	resolver := dnstest.Start(t, dnstest.Reply(upstream.Reply))
	s := &server{address: addrs[0], http: addrs[1]}
	s.Program, s.LogFile = process.Build(t), filepath.Join(dir, "log")
	s.Args = []string{"dns", "--config", config, "--kubeconfig", file, "--listen", s.address, "--http", s.http,
		"--upstream", resolver.Addr.String()}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("%s says:\n%s", s.address, s.Log())
		}
	})
	return s
}

func (s *server) start(t *testing.T) {
	t.Helper()
	must.Succeed(t, s.Start())
}

// startReady starts a server, and returns it when it is ready.
func startReady(t *testing.T, kubeconfig string) *server {
	t.Helper()
	s := newServer(t, kubeconfig)
	s.start(t)
	poll.UntilNil(t, "a ready server", s.ready)
	return s
}

// get returns a page of the server; code 0 means that there is no response.
func (s *server) get(path string) (code int, text string) {
	client := http.Client{Timeout: 5 * time.Second}
	r, err := client.Get("http://" + s.http + path)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(b)
}

// ready returns an error unless the server is ready.
func (s *server) ready() error {
	if err := s.Alive(); err != nil {
		return err
	}
	code, text := s.get("/readyz")
	if code != http.StatusOK {
		return errors.New(text)
	}
	return nil
}

// metric returns the sum of a metric's series with the label, or of all for "".
func (s *server) metric(t *testing.T, name, label string) float64 {
	t.Helper()
	_, text := s.get("/metrics")
	found, sum := false, 0.0
	for line := range strings.Lines(text) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if series != name && !strings.HasPrefix(series, name+"{") || !strings.Contains(series, label) {
			continue
		}
		v := must.Get(strconv.ParseFloat(value, 64))(t)
		found, sum = true, sum+v
	}
	if !found {
		t.Fatalf("no %s{%s} in\n%s", name, label, text)
	}
	return sum
}

// has compares the reply to q with that of w.
func (s *server) has(w *world.World, q ask.Question) error {
	m, err := ask.One(s.address, q)
	if err != nil {
		return err
	}
	if want := spec.New(w, nil, "disabled").Answer(q); !ask.Agree(q, want, m) {
		return fmt.Errorf("%v: got %v, want %v", q, ask.Normal(q, m), ask.Normal(q, want))
	}
	return nil
}

// rcode returns the rcode of the reply to q, -1 without a reply.
func (s *server) rcode(q ask.Question) (int, *dns.Msg) {
	m, err := ask.One(s.address, q)
	if err != nil || m == nil {
		return -1, nil
	}
	return m.Rcode, m
}

// contains returns an error unless a page of s contains text.
func contains(s *server, path, text string) error {
	if code, got := s.get(path); !strings.Contains(got, text) {
		return fmt.Errorf("%s has no %q: %d %s", path, text, code, got)
	}
	return nil
}

// logged returns an error unless s has logged text.
func logged(s *server, text string) error {
	if log := s.Log(); !strings.Contains(log, text) {
		return fmt.Errorf("no %q in the log:\n%s", text, log)
	}
	return nil
}

// forwards compares the reply of s with that of the upstream resolver.
func forwards(s *server, q ask.Question) error {
	m, err := ask.One(s.address, q)
	if err != nil {
		return err
	}
	if want := upstream.Answer(q.Name, q.Type); !ask.Agree(q, want, m) {
		return fmt.Errorf("%v: got %v, want %v", q, ask.Normal(q, m), ask.Normal(q, want))
	}
	return nil
}
