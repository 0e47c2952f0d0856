// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

var update = flag.Bool("update", false, "write what the commands print into the golden files; read the diff before you keep it")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"dnsconfigurer": main})
}

// TestScripts runs the commands as they are typed.
func TestScripts(t *testing.T) {
	examples := must.Get(filepath.Abs("../../examples"))(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("EXAMPLES", examples)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exit": exit, "stretch": stretch,
			"serve": serveZone, "untimed": untimed},
	})
}

// exit CODE COMMAND... runs a command that must end with that exit code.
func exit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit CODE COMMAND [ARGUMENT...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exited, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exited.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// stretch FILE BYTES fills a file up with remarks.
func stretch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: stretch FILE BYTES")
	}
	size, err := strconv.Atoi(args[1])
	ts.Check(err)
	path := ts.MkAbs(args[0])
	text, err := os.ReadFile(path)
	ts.Check(err)
	ts.Check(os.WriteFile(path, append(text, bytes.Repeat([]byte("#"), size-len(text))...), 0o600))
}

// serve FILE answers from the records of a file, on the loopback, until the script
// ends; $SERVER is where. Names under "down." are answered with SERVFAIL.
func serveZone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: serve FILE")
	}
	records := map[string][]dns.RR{} // of a name
	for parser := dns.NewZoneParser(strings.NewReader(ts.ReadFile(args[0])), ".", args[0]); ; {
		rr, ok := parser.Next()
		if !ok {
			ts.Check(parser.Err())
			break
		}
		records[rr.Header().Name] = append(records[rr.Header().Name], rr)
	}
	server, err := dnstest.New(dnstest.Reply(func(q *dns.Msg) *dns.Msg {
		r := new(dns.Msg).SetReply(q)
		r.RecursionAvailable = true
		found, known := records[strings.ToLower(q.Question[0].Name)]
		switch {
		case strings.HasPrefix(q.Question[0].Name, "down."):
			r.Rcode = dns.RcodeServerFailure
		case !known:
			r.Rcode = dns.RcodeNameError
		}
		for _, rr := range found {
			if rr.Header().Rrtype == q.Question[0].Qtype {
				r.Answer = append(r.Answer, rr)
			}
		}
		return r
	}))
	ts.Check(err)
	ts.Defer(func() { ts.Check(server.Close()) })
	ts.Setenv("SERVER", server.Addr.String())
}

// untimed FILE writes the last output to a file, without its times and ports.
func untimed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: untimed FILE")
	}
	text := withoutTimes(ts.ReadFile("stdout"))
	if server := ts.Getenv("SERVER"); server != "" {
		text = strings.ReplaceAll(text, server, "SERVER")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

func withoutTimes(text string) string {
	text = regexp.MustCompile(`[0-9.]+ ms( +)?`).ReplaceAllString(text, "N ms ")
	text = strings.ReplaceAll(text, " \n", "\n")
	return regexp.MustCompile(`"micros":[0-9]+`).ReplaceAllString(text, `"micros":0`)
}

// TestExamples keeps what the examples are said to give.
func TestExamples(t *testing.T) {
	t.Chdir("../..")
	for _, golden := range []struct{ file, commands string }{
		{"examples.resolv.conf", "render -f examples --kubelet-config examples/node/kubelet.yaml"},
		{"examples.json", "render -f examples -o json --kubelet-config examples/node/kubelet.yaml"},
		{"examples-node-cache.explain", "render -f examples/autopath.yaml -o explain --config examples/node/shim.yaml"},
		{"trouble.github", "validate -f examples/trouble -o github"},
		{"trouble.explain", "render -f examples/trouble -o explain --kubelet-config examples/node/kubelet.yaml"},
		{"examples.lookup", `lookup -f examples --kubelet-config examples/node/kubelet.yaml --pod shop/web payments
lookup -f examples --kubelet-config examples/node/kubelet.yaml --pod shop/web www.example.com
lookup -f examples --kubelet-config examples/node/kubelet.yaml --pod shop/web gateway -o json
lookup -f examples --kubelet-config examples/node/kubelet.yaml --pod shop/web db-0.db
lookup -f examples --kubelet-config examples/node/kubelet.yaml --pod shop/web bank --libc musl
lookup -f examples --kubelet-config examples/node/kubelet.yaml --pod shop/gateway www.example.com
lookup -f examples --kubelet-config examples/node/kubelet.yaml --pod shop/gateway payments.shop.svc --libc musl
lookup -f examples --kubelet-config examples/node/kubelet.yaml --pod shop/crawler payments
lookup -f examples --config examples/node/shim.yaml --pod shop/web --compare www.example.com`},
	} {
		t.Run(golden.file, func(t *testing.T) {
			got := ""
			for command := range strings.SplitSeq(golden.commands, "\n") {
				var stdout, stderr bytes.Buffer
				run(t.Context(), strings.Fields(command), nil, &stdout, &stderr)
				got += "$ dnsconfigurer " + command + "\n" + withoutTimes(stdout.String()) + stderr.String()
			}
			path := filepath.Join("cmd/dnsconfigurer/testdata", golden.file)
			if *update {
				must.Succeed(t, os.WriteFile(path, []byte(got), 0o644))
			}
			want := must.Get(os.ReadFile(path))(t)
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// full is a standard output that accepts nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestRun_UnwritableResult: a result that cannot be written is an error, in the same words for every
// command.
func TestRun_UnwritableResult(t *testing.T) {
	t.Chdir("../..")
	for _, command := range []string{
		"version", "version -o json", "config defaults ShimConfiguration", "config check nowhere.yaml -o json", "policies",
		"render examples/autopath.yaml", "validate examples/trouble",
		"lookup -f examples/ --pod shop/web payments",
	} {
		var stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(command), nil, full{}, &stderr)
		if code != exitFailed || !strings.Contains(stderr.String(), "dnsconfigurer: writing the result: "+syscall.ENOSPC.Error()) {
			t.Errorf("%s: exit code %d, %s", command, code, stderr.String())
		}
	}
}
