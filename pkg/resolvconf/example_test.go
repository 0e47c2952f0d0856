// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package resolvconf_test

import (
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

func ExampleParse() {
	file := resolvconf.Parse("domain corp.example\nnameserver 192.0.2.53 # office\nsearch corp.example.\n")
	fmt.Print(file.Config())
	for _, i := range file.Ignored {
		fmt.Printf("line %d: %q: %s (%s)\n", i.Line, i.Text, i.Reason, i.Reason.Rule())
	}
	// Output:
	// nameserver 192.0.2.53
	// search corp.example
	// line 1: "domain corp.example": the kubelet reads only nameserver, search and options lines (H6)
	// line 2: "# office": a nameserver line has one address (H7)
}

// The same file has different meanings for the two C libraries.
func ExampleGlibc() {
	const text = "nameserver 192.0.2.53\nsearch\noptions ndots:5 rotate\n"
	glibc, musl := resolvconf.Glibc(text), resolvconf.Musl(text)
	fmt.Println("glibc:", glibc.Nameservers, "rotate", glibc.Rotate)
	for _, r := range glibc.Remarks {
		fmt.Printf("  line %d: %q: %s\n", r.Line, r.Text, r.Cause)
	}
	fmt.Println("musl:", musl.Nameservers, "rotate", musl.Rotate)
	for _, r := range musl.Remarks {
		fmt.Printf("  line %d: %q: %s\n", r.Line, r.Text, r.Cause)
	}
	// Output:
	// glibc: [192.0.2.53] rotate true
	//   line 2: "search": the keyword has no value
	// musl: [192.0.2.53] rotate false
	//   line 3: "rotate": not an option of this library
}

func ExampleConfig_String() {
	fmt.Print(resolvconf.Config{
		Nameservers: []string{"10.96.0.10"},
		Searches:    []string{"default.svc.cluster.local", "svc.cluster.local"},
		Options:     []string{"ndots:5"},
	})
	// Output:
	// nameserver 10.96.0.10
	// search default.svc.cluster.local svc.cluster.local
	// options ndots:5
}

func ExampleParseAddr() {
	for _, s := range []string{"127.1", "0x7f000001", "fe80::1%eth0", "fd00::1%eth0"} {
		addr, ok := resolvconf.ParseAddr(s)
		fmt.Println(addr, ok)
	}
	// Output:
	// 127.0.0.1 true
	// 127.0.0.1 true
	// fe80::1%eth0 true
	// invalid IP false
}
