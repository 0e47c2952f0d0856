// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// answer is a configuration as a C library has read it, in the terms of its struct.
type answer struct {
	Nameservers                       []string // with the number of the interface: "fe80::1 1"
	Search                            []string
	Ndots, Timeout, Attempts, Options int
}

// The bits of the options in glibc's struct __res_state (resolv.h).
const (
	initialised, recurse, defnames, dnsrch = 0x1, 0x40, 0x80, 0x200 // always set

	useVC, rotate, singleRequest, singleRequestReopen = 0x8, 0x4000, 0x200000, 0x400000
	edns0, noTLDQuery, noReload, trustAD, noAAAA      = 0x100000, 0x1000000, 0x2000000, 0x4000000, 0x8000000
	strictError                                       = 0x10000000
)

// interfaces are the interfaces of the namespace.
var interfaces = map[string]string{"lo": "1"}

// want converts r to the terms of glibc and musl.
func want(r resolvconf.Resolver) answer {
	a := answer{Search: r.Search, Ndots: r.Ndots, Timeout: r.Timeout, Attempts: r.Attempts}
	for _, s := range r.Nameservers {
		scope := interfaces[s.Zone()]
		if n, err := strconv.ParseUint(s.Zone(), 10, 32); err == nil && scope == "" {
			scope = strconv.FormatUint(n, 10)
		}
		if scope == "" {
			scope = "0"
		}
		a.Nameservers = append(a.Nameservers, s.WithZone("").String()+" "+scope)
	}
	for _, o := range []struct {
		set bool
		bit int
	}{
		{r.Rotate, rotate}, {r.EDNS0, edns0}, {r.SingleRequest, singleRequest},
		{r.SingleRequestReopen, singleRequestReopen}, {r.NoTLDQuery, noTLDQuery},
		{r.NoReload, noReload}, {r.UseVC, useVC}, {r.TrustAD, trustAD}, {r.NoAAAA, noAAAA},
	} {
		if o.set {
			a.Options |= o.bit
		}
	}
	return a
}

// wantGlibc adds the defaults that glibc takes from the host. A program that uses the
// public struct gets six search domains, or those that fit into 256 bytes with a NUL
// after each.
func wantGlibc(text string, public bool) answer {
	a := want(resolvconf.Glibc(text))
	a.Options |= initialised | recurse | defnames | dnsrch
	if len(a.Search) == 0 {
		a.Search = []string{hostDomain}
	}
	if public {
		size := 0
		for i, domain := range a.Search {
			if size += len(domain) + 1; size > 256 || i == 6 {
				a.Search = a.Search[:i]
				break
			}
		}
	}
	return a
}

func TestGlibc(t *testing.T) {
	public, whole := compile(t, glibc236, "glibc"), build(t, "gcc", "glibc.c", "-static", "-DWHOLE")
	newer := compile(t, glibc241, "glibc")
	file := isolate(t)
	write(t, file, "search "+strings.Repeat("a", 256)+"\n")
	fixed := map[string]bool{} // programs whose glibc has the fix of CVE-2026-8674
	for _, program := range []string{public, whole, newer} {
		_, err := tell(program)
		fixed[program] = err == nil
	}
	t.Logf("fixed: glibc 2.36 %t and static %t, 2.41 %t", fixed[public], fixed[whole], fixed[newer])
	rules := len(oneRule())
	for i, text := range texts(2500, func(string) bool { return true }) {
		programs := []string{public, whole, newer}
		if i >= rules { // random
			programs = append([]string{newer}, public, whole)[i%2 : i%2+2]
		}
		write(t, file, text)
		for _, program := range programs {
			got, err := tell(program)
			if crashes(text, fixed[program]) {
				if !crashed(err) {
					t.Fatalf("%q: got %v, want a signal", text, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			got.Options &^= strictError                                           // since 2.41: not represented
			got.Timeout, got.Attempts = max(got.Timeout, 1), max(got.Attempts, 0) // TestSilence has the proof
			if diff := cmp.Diff(wantGlibc(text, program != whole), got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%q (-Glibc +the library):\n%s", text, diff)
			}
		}
	}
}

// crashes reports whether text crashes a glibc that has, or lacks, the fix of CVE-2026-8674.
func crashes(text string, fixed bool) bool {
	return slices.ContainsFunc(resolvconf.Glibc(text).Remarks, func(r resolvconf.Remark) bool {
		cause := r.Cause.String()
		return strings.Contains(cause, "crashes or hangs") || !fixed && strings.Contains(cause, "CVE-2026-8674")
	})
}

// TestGlibc_NewOptions: what README.md says about options that glibc 2.36 does not have.
func TestGlibc_NewOptions(t *testing.T) {
	program := compile(t, glibc241, "glibc")
	file := isolate(t)
	for options, set := range map[string]int{
		"strict-error": strictError, "rotate -rotate": 0, "edns0 trust-ad -edns0": trustAD,
		"single-request -single-request-reopen": singleRequest,
		"no-aaaa use-vc rotate":                 noAAAA | useVC | rotate,
	} {
		write(t, file, "options "+options+"\n")
		got, err := tell(program)
		if want := initialised | recurse | defnames | dnsrch | set; got.Options != want || err != nil {
			t.Errorf("options %s: got %#x, %v, want %#x", options, got.Options, err, want)
		}
	}
}

func TestMusl(t *testing.T) {
	programs := []string{compile(t, musl123, "musl"), compile(t, musl125, "musl")}
	file := isolate(t)
	rules := len(oneRule())
	for i, text := range texts(12000, knownZones) {
		write(t, file, text)
		for j, program := range programs {
			if i >= rules && i%len(programs) != j { // random texts are for one of them
				continue
			}
			got, err := tell(program)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if diff := cmp.Diff(want(resolvconf.Musl(text)), got); diff != "" {
				t.Fatalf("%q (-Musl +the library):\n%s", text, diff)
			}
		}
	}
}

func TestGo(t *testing.T) {
	program := compile(t, goNet, "")
	file := isolate(t)
	long := strings.Repeat("x", 1<<16-len("search a\n")-1)
	list := append(texts(1500, knownZones), long+"\nsearch a\n", long+"xxxxxxxxx\nsearch a",
		long+"xxxxxxxxxx\nsearch a\n", "search a\n"+long+"xxxxxxxxx", "search a\n"+long+"xxxxxxxxxx")
	for _, text := range list {
		write(t, file, text)
		got, err := tell(program)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if diff := cmp.Diff(wantGo(text), got); diff != "" {
			t.Fatalf("%q (-Go +package net):\n%s", text, diff)
		}
	}
}

// wantGo adds the default that Go takes from the host, and the final dots.
func wantGo(text string) answer {
	a := want(resolvconf.Go(text))
	a.Options &^= edns0 // always, not an option
	if len(a.Search) == 0 {
		a.Search = []string{hostDomain}
	}
	for i, domain := range a.Search {
		a.Search[i] = strings.TrimSuffix(domain, ".") + "."
	}
	return a
}

// knownZones reports whether the zones of text exist in the namespace: a Resolver does
// not resolve interfaces, and musl ignores a line with an unknown one.
func knownZones(text string) bool {
	for _, s := range resolvconf.Musl(text).Nameservers {
		_, err := strconv.ParseUint(s.Zone(), 10, 32)
		if s.Zone() != "" && interfaces[s.Zone()] == "" && err != nil {
			return false
		}
	}
	return true
}

// TestUnknownZone proves the comment on Resolver.Nameservers about a zone that is not an
// interface.
func TestUnknownZone(t *testing.T) {
	glibc, musl := build(t, "gcc", "glibc.c"), build(t, "musl-gcc", "musl.c", "-static")
	write(t, isolate(t), "nameserver fe80::1%eth9\nnameserver 127.0.0.2\n")
	if got, err := tell(glibc); err != nil || !cmp.Equal(got.Nameservers, []string{"fe80::1 0", "127.0.0.2 0"}) {
		t.Errorf("glibc has the servers %q, %v", got.Nameservers, err)
	}
	if got, err := tell(musl); err != nil || !cmp.Equal(got.Nameservers, []string{"127.0.0.2 0"}) {
		t.Errorf("musl has the servers %q, %v", got.Nameservers, err)
	}
}

// texts returns the texts of oneRule and n random ones, which mix pieces that a library
// treats specially. The list is the same in each run.
func texts(n int, fit func(string) bool) []string {
	list := oneRule()
	random := rand.New(rand.NewPCG(2026, 36))
	for len(list) < n {
		var text string
		if random.IntN(3) == 0 {
			text = mutate(random, list[random.IntN(len(list))])
		} else {
			text = compose(random)
		}
		if fit(text) {
			list = append(list, text)
		}
	}
	return list
}

// build compiles a program and returns its path. It must run before isolate.
func build(t *testing.T, compiler, source string, flags ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for namespaces")
	}
	debian.Install(t, compiler, "gcc", "libc6-dev", "musl-tools")
	program := filepath.Join(t.TempDir(), "program")
	args := append([]string{"-Wall", "-Werror", "-O1", "-o", program, filepath.Join("testdata", source)}, flags...)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", compiler, args, err, out)
	}
	return program
}

func write(t *testing.T, file, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o644))
}

// run runs a program without the variables that glibc reads, with a time limit.
func run(program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Env = []string{}
	out, err := c.Output()
	return string(out), err
}

// tell returns the configuration that the program has read.
func tell(program string) (answer, error) {
	out, err := run(program)
	if err != nil {
		return answer{}, err
	}
	return parse(out)
}

func parse(out string) (a answer, err error) {
	numbers := map[string]*int{"ndots": &a.Ndots, "timeout": &a.Timeout, "attempts": &a.Attempts, "options": &a.Options}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "":
		case "nameserver":
			address, scope, _ := strings.Cut(value, " ")
			parsed, err := netip.ParseAddr(address) // the notations differ
			if err != nil {
				return a, err
			}
			a.Nameservers = append(a.Nameservers, parsed.String()+" "+scope)
		case "search":
			domain, err := hex.DecodeString(value)
			if err != nil {
				return a, err
			}
			a.Search = append(a.Search, string(domain))
		default:
			if numbers[key] == nil {
				return a, fmt.Errorf("no such key: %q", key)
			}
			if *numbers[key], err = strconv.Atoi(value); err != nil {
				return a, err
			}
		}
	}
	return a, nil
}
