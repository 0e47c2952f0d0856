// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Command walk shows how far one query, or one command, walks through the source. It builds a program in which
// every function of the product records its call while a gate file exists, and prints for each scenario the
// distinct functions and files, those of pkg/dnsserver, and the returns: how often a goroutine comes back to a
// file that it has left.
//
//	go run ./test/walk
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

// recorder is the package that the functions of the copy call.
const recorder = `package walk

import (
	"fmt"
	"os"
	"runtime"
	"sync"
)

var mu sync.Mutex

func In(name string) {
	dir := os.Getenv("WALK_DIR")
	if _, err := os.Stat(dir + "/gate"); err != nil {
		return
	}
	var stack [64]byte
	var id int
	fmt.Sscanf(string(stack[:runtime.Stack(stack[:], false)]), "goroutine %d", &id)
	mu.Lock()
	defer mu.Unlock()
	if f, err := os.OpenFile(dir+"/calls", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		fmt.Fprintln(f, id, name)
		f.Close()
	}
}
`

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "walk-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Setenv("WALK_DIR", dir); err != nil {
		return err
	}
	program := filepath.Join(dir, "dnsconfigurer")
	if err := build(dir, program); err != nil {
		return err
	}
	calls, err := record(dir, func() error { return exec.Command(program, "validate", "-f", "examples/clusterfirst.yaml").Run() })
	if err != nil {
		return err
	}
	first := slices.IndexFunc(calls, func(call string) bool { return strings.HasSuffix(call, "ValidateOptions.Run") })
	if first < 0 {
		return fmt.Errorf("validate did not run: %d calls", len(calls))
	}
	report("validate, before its first line", calls[:first])
	return server(dir, program)
}

// build builds the program with an overlay of the source, whose files are in a directory.
func build(dir, program string) error {
	sources, err := exec.Command("git", "ls-files", "api/*.go", "cmd/*.go", "internal/*.go", "pkg/*.go", ":!*_test.go").Output()
	if err != nil {
		return err
	}
	overlay := map[string]string{"internal/walk/walk.go": filepath.Join(dir, "walk.go")}
	if err := os.WriteFile(overlay["internal/walk/walk.go"], []byte(recorder), 0o600); err != nil {
		return err
	}
	for i, path := range strings.Fields(string(sources)) {
		text, err := os.ReadFile(path)
		if err == nil {
			text, err = instrument(path, text)
		}
		overlay[path] = filepath.Join(dir, fmt.Sprint(i, ".go"))
		if err := cmp.Or(err, os.WriteFile(overlay[path], text, 0o600)); err != nil {
			return err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	if err := cmp.Or(err, os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600)); err != nil {
		return err
	}
	compile := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./cmd/dnsconfigurer")
	compile.Stderr = os.Stderr
	return compile.Run()
}

// instrument makes each function of a file record its call first.
func instrument(path string, text []byte) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, 0)
	if err != nil {
		return nil, err
	}
	inserted := map[int]string{}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil {
			receiver := fset.Position(f.Recv.List[0].Type.Pos()).Offset
			name = string(text[receiver:fset.Position(f.Recv.List[0].Type.End()).Offset]) + "." + name
		}
		inserted[fset.Position(f.Body.Lbrace).Offset+1] = fmt.Sprintf(" recordCall.In(%q);", path+" "+name)
	}
	if len(inserted) == 0 {
		return text, nil
	}
	inserted[fset.Position(file.Name.End()).Offset] = `; import recordCall "github.com/dnsconfigurer/dnsconfigurer/internal/walk"`
	var out []byte
	last := 0
	for _, at := range slices.Sorted(maps.Keys(inserted)) {
		out = append(append(out, text[last:at]...), inserted[at]...)
		last = at
	}
	return append(out, text[last:]...), nil
}

// server records queries of a cluster DNS server, each the second of its kind.
func server(dir, program string) error {
	upstream, err := dnstest.New(dnstest.Reply(func(q *dns.Msg) *dns.Msg {
		reply := new(dns.Msg).SetReply(q)
		header := dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}
		reply.Answer = []dns.RR{&dns.A{Hdr: header, A: []byte{192, 0, 2, 1}}}
		return reply
	}))
	if err != nil {
		return err
	}
	defer upstream.Close()
	const listen = "127.0.0.1:15399"
	server := exec.Command(program, "dns", "--manifests", "examples", "--listen", listen, "--upstream", upstream.Addr.String())
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		return err
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	ask := func(network, name string) error {
		client := &dns.Client{Net: network, Timeout: 5 * time.Second}
		reply, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), listen)
		if err == nil && len(reply.Answer) == 0 {
			err = fmt.Errorf("%s: no answer: %v", name, reply)
		}
		return err
	}
	deadline := time.Now().Add(20 * time.Second)
	for ask("udp", "payments.shop.svc.cluster.local.") != nil {
		if time.Now().After(deadline) {
			return fmt.Errorf("the server does not answer at %s", listen)
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, s := range []struct{ title, network, warm, name string }{
		{"UDP A of the cluster", "udp", "payments.shop.svc.cluster.local.", "payments.shop.svc.cluster.local."},
		{"TCP A of the cluster", "tcp", "payments.shop.svc.cluster.local.", "payments.shop.svc.cluster.local."},
		{"cache miss", "udp", "one.example.", "two.example."},
		{"cache hit", "udp", "two.example.", "two.example."},
	} {
		if err := ask(s.network, s.warm); err != nil {
			return err
		}
		time.Sleep(time.Second) // the first query's late work is not recorded
		calls, err := record(dir, func() error { return ask(s.network, s.name) })
		if err != nil {
			return err
		}
		report(s.title, calls)
	}
	return nil
}

// record opens the gate during do, and returns the calls.
func record(dir string, do func() error) ([]string, error) {
	gate, calls := filepath.Join(dir, "gate"), filepath.Join(dir, "calls")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		return nil, err
	}
	err := do()
	time.Sleep(50 * time.Millisecond)
	text, readErr := os.ReadFile(calls)
	if err := cmp.Or(err, os.Remove(gate), readErr, os.Remove(calls)); err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n"), nil
}

// report prints the distinct functions and files of the calls, and the returns.
func report(title string, calls []string) {
	functions, files, root := map[string]bool{}, map[string]bool{}, map[string]bool{}
	last, left := map[string]string{}, map[string]bool{}
	returns := 0
	for _, call := range calls {
		goroutine, name, _ := strings.Cut(call, " ")
		file, _, _ := strings.Cut(name, " ")
		functions[name], files[file] = true, true
		if filepath.Dir(file) == "pkg/dnsserver" {
			root[name] = true
		}
		if was := last[goroutine]; was != file {
			if left[goroutine+file] {
				returns++
			}
			left[goroutine+was] = true
			last[goroutine] = file
		}
	}
	fmt.Printf("%-32s %4d calls of %3d functions in %2d files, %3d returns; pkg/dnsserver alone %2d functions\n",
		title, len(calls), len(functions), len(files), returns, len(root))
}
