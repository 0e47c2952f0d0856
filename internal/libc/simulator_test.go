// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/libc"
)

// zone maps "name" or "name TYPE" to an answer: an address, or one of nodata, servfail,
// refused, cut (over UDP), silent and unreachable. Other names do not exist. The key
// "@127.0.0.2" is the answer of that server to every query.
type zone map[string]string

func (z zone) network() libc.Network {
	exchange := func(tcp bool) libc.Exchange {
		return func(ctx context.Context, server netip.Addr, q *dns.Msg) (*dns.Msg, error) {
			question := q.Question[0]
			name := strings.TrimSuffix(question.Name, ".")
			kind := "nxdomain"
			for _, key := range []string{name, name + " " + dns.Type(question.Qtype).String(), "@" + server.String()} {
				if k, ok := z[key]; ok {
					kind = k
				}
			}
			return answer(ctx, q, kind, tcp)
		}
	}
	return libc.Network{UDP: exchange(false), TCP: exchange(true)}
}

func answer(ctx context.Context, q *dns.Msg, kind string, tcp bool) (*dns.Msg, error) {
	r := new(dns.Msg).SetReply(q)
	r.RecursionAvailable = true
	switch kind {
	case "silent":
		<-ctx.Done()
		return nil, ctx.Err()
	case "unreachable":
		return nil, errors.New("connection refused")
	case "servfail":
		r.Rcode = dns.RcodeServerFailure
	case "refused":
		r.Rcode = dns.RcodeRefused
	case "nxdomain":
		r.Rcode = dns.RcodeNameError
	case "nodata":
	case "cut":
		if r.Truncated = !tcp; tcp {
			return answer(ctx, q, "192.0.2.1", true)
		}
		time.Sleep(time.Millisecond) // so that the query for the other type is sent before the one over TCP
	default:
		if q.Question[0].Qtype == dns.TypeAAAA {
			time.Sleep(2 * time.Millisecond) // so that package net has the addresses of type A first
		}
		h := dns.RR_Header{Name: q.Question[0].Name, Rrtype: q.Question[0].Qtype, Class: dns.ClassINET}
		if a := net.ParseIP(kind); h.Rrtype == dns.TypeA && a.To4() != nil {
			r.Answer = []dns.RR{&dns.A{Hdr: h, A: a}}
		} else if h.Rrtype == dns.TypeAAAA && a.To4() == nil {
			r.Answer = []dns.RR{&dns.AAAA{Hdr: h, AAAA: a}}
		}
	}
	return r, nil
}

// pod is the resolv.conf of an ordinary pod.
const pod = "nameserver 10.96.0.10\nsearch shop.svc.example svc.example example\noptions ndots:5\n"

// two has two servers and a short timeout.
const two = "nameserver 127.0.0.1\nnameserver 127.0.0.2\noptions timeout:1 attempts:1"

// TestLostQuery: glibc and Go wait for the timeout, musl queries again within it, and several servers at once.
func TestLostQuery(t *testing.T) {
	const server, other = "nameserver 192.0.2.1\n", "nameserver 192.0.2.2\n"
	for _, tt := range []struct {
		library libc.Library
		file    string
		want    time.Duration
	}{
		{libc.Glibc, server, 5 * time.Second},
		{libc.Glibc, server + other + "options timeout:2\n", 2 * time.Second},
		{libc.Glibc, server + "options timeout:0\n", time.Second},
		{libc.Go, server + "options timeout:3 attempts:4\n", 3 * time.Second},
		{libc.Musl, server, 2500 * time.Millisecond},
		{libc.Musl, server + "options timeout:3 attempts:3\n", time.Second},
		{libc.Musl123, server + other, 0},
	} {
		s := libc.Simulator{Library: tt.library, Resolver: tt.library.Read(tt.file)}
		if got := s.LostQuery(); got != tt.want {
			t.Errorf("%s, %q: %v, want %v", tt.library, tt.file, got, tt.want)
		}
	}
}

// TestLookup_Rules states the rules of each library, which test/libc verifies.
func TestLookup_Rules(t *testing.T) {
	long := strings.Repeat("x.", 125)
	for _, tt := range []struct {
		rule    string
		library libc.Library
		file    string
		zone    zone
		name    string
		want    string // the queries in order, and the result
	}{
		{"fewer dots than ndots: the domains first", libc.Glibc, pod, zone{"a.svc.example": "192.0.2.1"},
			"a", "a.shop.svc.example A, a.shop.svc.example AAAA, a.svc.example A, a.svc.example AAAA: 192.0.2.1"},
		{"fewer dots than ndots: the name last", libc.Glibc, pod, zone{}, "a.b",
			"a.b.shop.svc.example A, a.b.shop.svc.example AAAA, a.b.svc.example A, a.b.svc.example " +
				"AAAA, a.b.example A, a.b.example AAAA, a.b A, a.b AAAA: EAI_NONAME"},
		{"at least ndots dots: the name first", libc.Glibc, "search d\n", zone{"a.b.d": "192.0.2.1"},
			"a.b", "a.b A, a.b AAAA, a.b.d A, a.b.d AAAA: 192.0.2.1"},
		{"at least ndots dots, musl: the name only", libc.Musl, "search d\n", zone{"a.b.d": "192.0.2.1"},
			"a.b", "a.b A, a.b AAAA: EAI_NONAME"},
		{"a final dot", libc.Glibc, pod, zone{}, "a.", "a A, a AAAA: EAI_NONAME"},
		{"a final dot, musl", libc.Musl, pod, zone{}, "a.", "a A, a AAAA: EAI_NONAME"},

		{"NODATA: the next candidate, EAI_NODATA in the end", libc.Glibc, "search d e\n",
			zone{"a.d": "nodata"}, "a", "a.d A, a.d AAAA, a.e A, a.e AAAA, a A, a AAAA: EAI_NODATA"},
		{"NODATA, musl: the search ends", libc.Musl, "search d e\n",
			zone{"a.d": "nodata", "a.e": "192.0.2.1"}, "a", "a.d A, a.d AAAA: EAI_NODATA"},
		{"NODATA, musl 1.2.3: the search ends", libc.Musl123, "search d e\n",
			zone{"a.d": "nodata", "a.e": "192.0.2.1"}, "a", "a.d A, a.d AAAA: EAI_NONAME"},
		{"SERVFAIL: the next candidate", libc.Glibc, "search d e\noptions attempts:1\n",
			zone{"a.d": "servfail", "a.e": "192.0.2.1"}, "a", "a.d A, a.d AAAA, a.e A, a.e AAAA: 192.0.2.1"},
		{"REFUSED: only the name itself is still tried", libc.Glibc, "search d e\noptions attempts:1\n",
			zone{"a.d": "refused", "a.e": "192.0.2.1"}, "a", "a.d A, a.d AAAA, a A, a AAAA: EAI_NONAME"},
		{"SERVFAIL, musl: four retries a round, then the search ends", libc.Musl,
			"search d e\noptions attempts:1\n", zone{"a.d A": "servfail", "a.d AAAA": "2001:db8::1"},
			"a", "a.d A, a.d AAAA, a.d A, a.d A, a.d A, a.d A: EAI_AGAIN"},
		{"REFUSED, musl: ignored", libc.Musl, "options attempts:1\n", zone{"a": "refused"}, "a", "a A, a AAAA: EAI_AGAIN"},
		{"one family fails: the other is used", libc.Glibc, "options attempts:1\n",
			zone{"a A": "192.0.2.1", "a AAAA": "servfail"}, "a", "a A, a AAAA: 192.0.2.1"},
		{"one family does not exist, musl: nothing is found", libc.Musl, "options attempts:1\n",
			zone{"a A": "192.0.2.1", "a AAAA": "nxdomain"}, "a", "a A, a AAAA: EAI_NONAME"},

		{"REFUSED: the next server", libc.Glibc, two, zone{"@127.0.0.1": "refused", "a": "192.0.2.1"},
			"a", "a A @127.0.0.1, a AAAA @127.0.0.1, a A @127.0.0.2, a AAAA @127.0.0.2: 192.0.2.1"},
		{"musl: all servers at once", libc.Musl, two, zone{"@127.0.0.1": "silent", "a": "192.0.2.1"},
			"a", "a A @127.0.0.1, a A @127.0.0.2, a AAAA @127.0.0.1, a AAAA @127.0.0.2: 192.0.2.1"},
		{"NXDOMAIN: no other server", libc.Glibc, two, zone{"@127.0.0.1": "nxdomain", "a": "192.0.2.1"},
			"a", "a A @127.0.0.1, a AAAA @127.0.0.1: EAI_NONAME"},
		{"rotate", libc.Glibc, two + " rotate\nsearch d\n", zone{}, "a",
			"a.d A @127.0.0.1, a.d AAAA @127.0.0.1, a A @127.0.0.2, a AAAA @127.0.0.2: EAI_NONAME"},
		{"attempts", libc.Glibc, "options timeout:1 attempts:3\n", zone{"a": "silent"}, "a",
			"a A, a AAAA, a A, a AAAA, a A, a AAAA: EAI_AGAIN"},
		{"unreachable server: the search ends", libc.Glibc, "search d\noptions attempts:1\n",
			zone{"@127.0.0.1": "unreachable"}, "a", "a.d A, a.d AAAA: EAI_AGAIN"},
		{"one of two replies: sequential queries from then on", libc.Glibc,
			"search d\noptions timeout:1 attempts:1\n", zone{"a.d A": "192.0.2.1", "a.d AAAA": "silent"},
			"a", "a.d A, a.d AAAA, a.d A, a.d AAAA, a.d A, a.d AAAA: 192.0.2.1"},

		{"truncated: TCP, for both", libc.Glibc, "", zone{"a A": "cut"}, "a", "a A, a AAAA, a A tcp, a AAAA tcp: 192.0.2.1"},
		{"truncated, musl: TCP for the type", libc.Musl, "", zone{"a A": "cut", "a AAAA": "2001:db8::1"},
			"a", "a A, a AAAA, a A tcp: 192.0.2.1 2001:db8::1"},
		{"truncated, musl 1.2.3: no TCP", libc.Musl123, "", zone{"a": "cut"}, "a", "a A, a AAAA: EAI_NONAME"},
		{"use-vc", libc.Glibc, "options use-vc\n", zone{"a": "192.0.2.1"}, "a", "a A tcp, a AAAA tcp: 192.0.2.1"},
		{"no-aaaa", libc.Glibc, "options no-aaaa\n", zone{"a": "192.0.2.1"}, "a", "a A: 192.0.2.1"},
		{"no-tld-query", libc.Glibc, "search d\noptions no-tld-query\n", zone{"a": "192.0.2.1"}, "a", "a.d A, a.d AAAA: EAI_NONAME"},
		{"the root as a search domain", libc.Glibc, "search . d\n", zone{}, "a", "a A, a AAAA, a.d A, a.d AAAA: EAI_NONAME"},
		{"the root as a search domain, musl: skipped", libc.Musl, "search . d\n",
			zone{"a.d": "192.0.2.1"}, "a", "a.d A, a.d AAAA: 192.0.2.1"},
		{"the root as a search domain, musl 1.2.3: malformed queries", libc.Musl123,
			"search . d\noptions attempts:1\n", zone{"a.d": "192.0.2.1"}, "a", "a. A malformed, a. AAAA malformed: EAI_AGAIN"},

		{"253 bytes", libc.Glibc, "", zone{}, long + "xyz.", long + "xyz A, " + long + "xyz AAAA: EAI_NONAME"},
		{"254 bytes", libc.Glibc, "", zone{}, long + "wxyz.", ": EAI_NONAME"},
		{"253 bytes, musl", libc.Musl, "", zone{}, long + "xyz", long + "xyz A, " + long + "xyz AAAA: EAI_NONAME"},
		{"254 bytes, musl", libc.Musl, "", zone{}, long + "wxyz", ": EAI_NONAME"},
		{"a candidate that is too long: the search ends", libc.Glibc, "search d\noptions ndots:15\n",
			zone{}, strings.Repeat("x", 63) + "." + strings.Repeat("x", 63) + "." +
				strings.Repeat("x", 63) + "." + strings.Repeat("x", 61),
			strings.Repeat("x", 63) + "." + strings.Repeat("x", 63) + "." + strings.Repeat("x", 63) +
				"." + strings.Repeat("x", 61) + " A, " + strings.Repeat("x", 63) + "." +
				strings.Repeat("x", 63) + "." + strings.Repeat("x", 63) + "." + strings.Repeat("x", 61) + " AAAA: EAI_NONAME"},
		{"not a host name", libc.Glibc, pod, zone{}, "a b", ": EAI_NONAME"},
		{"an address", libc.Glibc, pod, zone{}, "0x7f.1", ": 127.0.0.1"},
		{"an address, musl", libc.Musl, pod, zone{}, "fe80::1%eth0", ": fe80::1%eth0"},
		{"an address with a zone that it cannot have", libc.Glibc, pod, zone{}, "2001:db8::1%eth0", ": EAI_NONAME"},
		{"/etc/hosts", libc.Glibc, pod, zone{}, "LocalHost", ": 127.0.0.1 ::1"},
		{"/etc/hosts, musl: case-sensitive", libc.Musl, "", zone{}, "LocalHost", "LocalHost A, LocalHost AAAA: EAI_NONAME"},

		{"Go: the domains first", libc.Go, "search d e\n", zone{"a.e": "192.0.2.1"}, "a", "a.d A, a.d AAAA, a.e A, a.e AAAA: 192.0.2.1"},
		{"Go, NODATA: the next candidate", libc.Go, "search d e\n", zone{"a.d": "nodata"}, "a",
			"a.d A, a.d AAAA, a.e A, a.e AAAA, a A, a AAAA: errNoSuchHost"},
		{"Go, REFUSED: the next server, then the next candidate", libc.Go,
			two + " single-request\nsearch d e\n", zone{"a.d": "refused", "a.e": "192.0.2.1"}, "a",
			"a.d A @127.0.0.1, a.d A @127.0.0.2, a.d AAAA @127.0.0.1, a.d AAAA @127.0.0.2, a.e " +
				"A @127.0.0.1, a.e AAAA @127.0.0.1: 192.0.2.1"},
		{"Go: the error of the name itself wins", libc.Go,
			"nameserver 127.0.0.1\nsearch d\noptions attempts:1\n", zone{"a": "servfail"}, "a",
			"a.d A, a.d AAAA, a A, a AAAA: errServerTemporarilyMisbehaving"},
		{"Go: a final dot", libc.Go, pod, zone{}, "a.", "a A, a AAAA: errNoSuchHost"},
		{"Go, truncated: TCP", libc.Go, "options attempts:1\n", zone{"a A": "cut", "a AAAA": "2001:db8::1"},
			"a", "a A, a AAAA, a A tcp: 192.0.2.1 2001:db8::1"},
		{"Go: only numbers", libc.Go, pod, zone{}, "127.1", ": errNoSuchHost"},
		{"Go: .onion is not queried", libc.Go, "", zone{}, "a.onion", ": errNoSuitableAddress"},
		{"Go: /etc/hosts", libc.Go, pod, zone{}, "LocalHost", ": 127.0.0.1 ::1"},
		{"Go: an address", libc.Go, pod, zone{}, "fe80::1%eth0", ": fe80::1%eth0"},
		{"Go: the search domain . is dropped", libc.Go, "search . d\n", zone{}, "a", "a.d A, a.d AAAA, a A, a AAAA: errNoSuchHost"},
		{"Go: no limit for search domains", libc.Go, "search 1 2 3 4 5 6 7\noptions single-request\n", zone{"a.7": "192.0.2.1"}, "a",
			"a.1 A, a.1 AAAA, a.2 A, a.2 AAAA, a.3 A, a.3 AAAA, a.4 A, a.4 AAAA, a.5 A, a.5 AAAA, " +
				"a.6 A, a.6 AAAA, a.7 A, a.7 AAAA: 192.0.2.1"},
		{"a file that crashes the process", libc.Musl, "options attempts:0\n", zone{}, "a", ": killed"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := simulator(tt.library, tt.file, tt.zone).Lookup(t.Context(), tt.name, libc.Both)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, describe(r, strings.Contains(tt.want, "@"))); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func simulator(l libc.Library, file string, z zone) libc.Simulator {
	return libc.Simulator{
		Library: l, Resolver: l.Read(file), Network: z.network(),
		Hosts: map[string][]netip.Addr{"localhost": {netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}},
	}
}

// describe formats a result in one line.
func describe(r libc.Result, servers bool) string {
	var queries []string
	for _, q := range r.Queries {
		s := strings.TrimSuffix(q.Name, ".") + " " + dns.Type(q.Type).String()
		if servers {
			s += " @" + q.Server.String()
		}
		if q.TCP {
			s += " tcp"
		}
		if errors.Is(q.Err, libc.ErrMalformed) {
			s += " malformed"
		}
		queries = append(queries, s)
	}
	result := fmt.Sprint(r.Addresses)
	if r.Error != "" {
		result = "[" + string(r.Error) + "]"
	}
	return strings.Join(queries, ", ") + ": " + result[1:len(result)-1]
}

func TestLookup_SearchesDomainOfHostname(t *testing.T) {
	for library, want := range map[libc.Library]string{
		libc.Glibc: "a.host.example A, a.host.example AAAA, a A, a AAAA: EAI_NONAME",
		libc.Musl:  "a A, a AAAA: EAI_NONAME",
		libc.Go:    "a.host.example A, a.host.example AAAA, a A, a AAAA: errNoSuchHost",
	} {
		s := simulator(library, "", zone{})
		s.Hostname = "here.host.example"
		r, err := s.Lookup(t.Context(), "a", libc.Both)
		if got := describe(r, false); got != want || err != nil {
			t.Errorf("%s: got %q, %v; want %q", library, got, err, want)
		}
	}
}

// TestLookup_HostsWithoutFamily: glibc queries a name whose addresses in /etc/hosts are of
// the other family. The others return an error.
func TestLookup_HostsWithoutFamily(t *testing.T) {
	for library, want := range map[libc.Library]string{
		libc.Glibc: "four AAAA: EAI_NONAME", libc.Musl123: ": EAI_NONAME",
		libc.Musl: ": EAI_NODATA", libc.Go: ": errNoSuitableAddress",
	} {
		s := simulator(library, "", zone{})
		s.Hosts = map[string][]netip.Addr{"four": {netip.MustParseAddr("192.0.2.6")}}
		r, err := s.Lookup(t.Context(), "four", libc.IPv6)
		if got := describe(r, false); got != want || err != nil {
			t.Errorf("%s: got %q, %v; want %q", library, got, err, want)
		}
	}
}

// TestLookup_Timeout compares the timeouts: glibc doubles its timeout with each server,
// musl has one for all servers.
func TestLookup_Timeout(t *testing.T) {
	silent := zone{"a": "silent"}
	for _, tt := range []struct {
		library libc.Library
		file    string
		want    time.Duration
	}{
		{libc.Glibc, "", 10 * time.Second},
		{libc.Glibc, "nameserver 127.0.0.1\nnameserver 127.0.0.2\nnameserver 127.0.0.3\noptions attempts:1", (5 + 3 + 6) * time.Second},
		{libc.Musl, "", 5 * time.Second},
		{libc.Musl, "nameserver 127.0.0.1\nnameserver 127.0.0.2\nnameserver 127.0.0.3\noptions timeout:3 attempts:10", 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			r, err := simulator(tt.library, tt.file, silent).Lookup(t.Context(), "a", libc.Both)
			if took := time.Since(start); took != tt.want || r.Error != libc.Again || err != nil {
				t.Errorf("%s %q: %v after %v, %v; want %v", tt.library, tt.file, r.Error, took, err, tt.want)
			}
			for _, q := range r.Queries {
				if !errors.Is(q.Err, libc.ErrTimeout) || q.Took == 0 {
					t.Errorf("%s %q: %v after %v", tt.library, tt.file, q.Err, q.Took)
				}
			}
		})
	}
}

func TestSearch_Errors(t *testing.T) {
	for _, tt := range []struct {
		library libc.Library
		qtype   uint16
		zone    zone
		want    libc.Error
		queries int
	}{
		{libc.Glibc, dns.TypeAAAA, zone{"a.d": "2001:db8::1"}, "", 1},
		{libc.Glibc, dns.TypeTXT, zone{"a.d": "nodata"}, libc.NoRecords, 2},
		{libc.Glibc, dns.TypeTXT, zone{}, libc.HostNotFound, 2},
		{libc.Musl, dns.TypeTXT, zone{"a.d": "nodata"}, libc.HostNotFound, 1}, // no search
		{libc.Musl, dns.TypeTXT, zone{"a": "nodata"}, libc.NoRecords, 1},
		{libc.Musl, dns.TypeANY, zone{}, libc.HostNotFound, 1}, // 255
		{libc.Musl, dns.TypeURI, zone{}, libc.NetDBSuccess, 0}, // 256, above the limit
	} {
		synctest.Test(t, func(t *testing.T) {
			r, err := simulator(tt.library, "search d\n", tt.zone).Search(t.Context(), "a", tt.qtype)
			if err != nil || r.Error != tt.want || len(r.Queries) != tt.queries {
				t.Errorf("%s %s %v: got %q, %d queries, %v; want %q, %d", tt.library,
					dns.Type(tt.qtype), tt.zone, r.Error, len(r.Queries), err, tt.want, tt.queries)
			}
		})
	}
}

// TestLookup_Canceled: the lookup ends with its context, and so do its goroutines.
func TestLookup_Canceled(t *testing.T) {
	for _, l := range libc.Libraries() {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			_, err := simulator(l, "search d e f\n", zone{"@127.0.0.1": "silent"}).Lookup(ctx, "a", libc.Both)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
				t.Errorf("%s: %v after %v", l, err, time.Since(start))
			}
		})
	}
}

// FuzzLookup: every lookup ends, sends no more queries than the file allows, and every
// name queried begins with the name that is looked up.
func FuzzLookup(f *testing.F) {
	f.Add(uint8(0), pod, "a", "x")
	f.Add(uint8(1), "search . ..\noptions ndots:15 attempts:9\n", "a.", "srn")
	f.Add(uint8(2), "search . ..\noptions ndots:15 attempts:9\n", "a.", "srn")
	f.Add(uint8(3), "search . ..\noptions rotate attempts:999999\n", "a", "srn")
	f.Add(uint8(0), "options use-vc rotate single-request\n", `a\.b\`, "cus")
	f.Fuzz(func(t *testing.T, library uint8, file, name, script string) {
		l := libc.Libraries()[int(library)%len(libc.Libraries())]
		kinds := []string{"silent", "unreachable", "servfail", "refused", "nxdomain", "nodata", "192.0.2.1"}
		s := simulator(l, file, nil)
		if len(s.Resolver.Search) > 8 || len(script) == 0 {
			return
		}
		s.Network.UDP = func(ctx context.Context, _ netip.Addr, q *dns.Msg) (*dns.Msg, error) {
			i := len(q.Question[0].Name) + int(q.Question[0].Qtype)
			return answer(ctx, q, kinds[int(script[i%len(script)])%len(kinds)], false)
		}
		s.Network.TCP = s.Network.UDP
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			r, _ := s.Lookup(ctx, name, libc.Both)
			perName := 2 * (len(s.Resolver.Nameservers) + 4) * (min(s.Resolver.Attempts, 1000) + 2) * 3
			if limit := perName * (len(s.Resolver.Search) + 2); len(r.Queries) > limit {
				t.Errorf("%d queries, want at most %d", len(r.Queries), limit)
			}
			if l == libc.Glibc { // the others escape the names
				checkNames(t, r.Queries, name)
			}
		})
	})
}

func checkNames(t *testing.T, queries []libc.Query, prefix string) {
	for _, q := range queries {
		if !strings.HasPrefix(q.Name, prefix) || !slices.Contains([]uint16{dns.TypeA, dns.TypeAAAA}, q.Type) {
			t.Errorf("looking up %q queried %s %q", prefix, dns.Type(q.Type), q.Name)
		}
	}
}
