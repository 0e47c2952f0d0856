// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

var specs = []struct{ spec, want, problem string }{
	{spec: "192.0.2.1", want: "192.0.2.1:53"},
	{spec: "192.0.2.1:5353", want: "192.0.2.1:5353"},
	{spec: "192.0.2.1:65535", want: "192.0.2.1:65535"},
	{spec: "2001:db8::1", want: "[2001:db8::1]:53"},
	{spec: "[2001:db8::1]:5353", want: "[2001:db8::1]:5353"},
	{spec: "fe80::1%eth0", want: "[fe80::1%eth0]:53"},
	{spec: "[fe80::1%eth0]:5353", want: "[fe80::1%eth0]:5353"},
	{spec: "127.0.0.53", want: "127.0.0.53:53"},
	{spec: "tcp://192.0.2.1", want: "tcp://192.0.2.1:53"},
	{spec: "tcp://[2001:db8::1]:5353", want: "tcp://[2001:db8::1]:5353"},
	{spec: "tls://192.0.2.1", want: "tls://192.0.2.1:853"},
	{spec: "tls://192.0.2.1#dns.example", want: "tls://192.0.2.1:853#dns.example"},
	{spec: "tls://[2001:db8::1]:8853#DNS.example", want: "tls://[2001:db8::1]:8853#dns.example"},

	{spec: "", problem: "not an IP address with an optional port"},
	{spec: "dns.example", problem: "not an IP address with an optional port"},
	{spec: "dns.example:53", problem: "not an IP address with an optional port"},
	{spec: " 192.0.2.1", problem: "not an IP address"},
	{spec: "192.0.2.01", problem: "not an IP address"},
	{spec: "192.0.2.1:", problem: "not an IP address with an optional port"},
	{spec: "192.0.2.1:0", problem: "not an IP address with an optional port"},
	{spec: "192.0.2.1:65536", problem: "not an IP address with an optional port"},
	{spec: "192.0.2.1:+53", problem: "not an IP address with an optional port"},
	{spec: "192.0.2.1:domain", problem: "not an IP address with an optional port"},
	{spec: "[192.0.2.1]:53", problem: "not an IP address with an optional port"},
	{spec: "[2001:db8::1]", problem: "not an IP address with an optional port: want ADDRESS, IPV4:PORT or [IPV6]:PORT"},
	{spec: "[2001:db8::1:53", problem: "not an IP address with an optional port"},
	{spec: "2001:db8:0:0:0:0:0:1:53", problem: "want ADDRESS, IPV4:PORT or [IPV6]:PORT"},
	{spec: "::ffff:192.0.2.1", problem: "IPv4-mapped IPv6 address: write it as 192.0.2.1"},
	{spec: "0.0.0.0", problem: "0.0.0.0 is not a unicast address"},
	{spec: "[::]:53", problem: ":: is not a unicast address"},
	{spec: "224.0.0.251:5353", problem: "224.0.0.251 is not a unicast address"},
	{spec: "192.0.2.1#dns.example", problem: "#NAME is only valid with tls://"},
	{spec: "tcp://192.0.2.1#dns.example", problem: "#NAME is only valid with tls://"},
	{spec: "tls://192.0.2.1#", problem: `name ""`},
	{spec: "tls://192.0.2.1#dns_example", problem: `name "dns_example"`},
	{spec: "tls://dns.example", problem: "not an IP address"},
	{spec: "https://192.0.2.1", problem: `unsupported scheme "https": want ADDRESS, tcp://ADDRESS or tls://ADDRESS`},
	{spec: "TLS://192.0.2.1", problem: `unsupported scheme "TLS"`},
}

func TestParseServer(t *testing.T) {
	for _, tt := range specs {
		got, err := upstream.ParseServer(tt.spec)
		switch {
		case tt.problem == "" && (err != nil || got.String() != tt.want):
			t.Errorf("%q = %v, %v; want %v", tt.spec, got, err, tt.want)
		case tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)):
			t.Errorf("%q = %v, %v; want an error with %q", tt.spec, got, err, tt.problem)
		}
	}
}

// String is the inverse of ParseServer.
func FuzzParseServer(f *testing.F) {
	for _, tt := range specs {
		f.Add(tt.spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		s, err := upstream.ParseServer(spec)
		if err != nil {
			return
		}
		if again, err := upstream.ParseServer(s.String()); err != nil || again != s {
			t.Errorf("%q is %+v, %q is %+v, %v", spec, s, s.String(), again, err)
		}
	})
}

var stubs = []struct {
	spec, zone string
	servers    []string
	problem    string
}{
	{spec: "corp.example=192.0.2.1", zone: "corp.example.", servers: []string{"192.0.2.1:53"}},
	{spec: "Corp.Example.=192.0.2.1:5353,tls://192.0.2.2#dns.example", zone: "corp.example.",
		servers: []string{"192.0.2.1:5353", "tls://192.0.2.2:853#dns.example"}},
	{spec: "2.0.192.in-addr.arpa=2001:db8::1", zone: "2.0.192.in-addr.arpa.", servers: []string{"[2001:db8::1]:53"}},
	{spec: "_tcp.corp=192.0.2.1", zone: "_tcp.corp.", servers: []string{"192.0.2.1:53"}},
	{spec: "a;b=192.0.2.1", zone: `a\;b.`, servers: []string{"192.0.2.1:53"}},

	{spec: "", problem: "want ZONE=ADDRESS[,ADDRESS...]"},
	{spec: "192.0.2.1", problem: "want ZONE=ADDRESS"},
	{spec: "=192.0.2.1", problem: `zone "" has an empty label`},
	{spec: ".=192.0.2.1", problem: `zone "." contains every name`},
	{spec: "corp..example=192.0.2.1", problem: "has an empty label"},
	{spec: "corp example=192.0.2.1", problem: "not printable ASCII"},
	{spec: `corp\.example=192.0.2.1`, problem: "a backslash"},
	{spec: strings.Repeat("a", 64) + "=192.0.2.1", problem: "a label has at most 63"},
	{spec: "corp.example=", problem: `upstream server ""`},
	{spec: "corp.example=192.0.2.1,", problem: `upstream server ""`},
	{spec: "corp.example=192.0.2.1,192.0.2.1:53", problem: "duplicate server 192.0.2.1:53"},
	{spec: "corp.example=192.0.2.1=192.0.2.2", problem: "not an IP address"},
}

func TestParseStubDomain(t *testing.T) {
	for _, tt := range stubs {
		got, err := upstream.ParseStubDomain(tt.spec)
		if tt.problem != "" {
			if err == nil || !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("%q = %+v, %v; want an error with %q", tt.spec, got, err, tt.problem)
			}
			continue
		}
		var servers []string
		for _, s := range got.Servers {
			servers = append(servers, s.String())
		}
		if diff := cmp.Diff(tt.servers, servers); err != nil || got.Zone != tt.zone || diff != "" {
			t.Errorf("%q = %+v, %v", tt.spec, got, err)
		}
	}
}

func FuzzParseStubDomain(f *testing.F) {
	for _, tt := range stubs {
		f.Add(tt.spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		d, err := upstream.ParseStubDomain(spec)
		if err == nil && (!strings.HasSuffix(d.Zone, ".") || d.Zone != strings.ToLower(d.Zone) || len(d.Servers) == 0) {
			t.Errorf("%q is %+v", spec, d)
		}
	})
}
