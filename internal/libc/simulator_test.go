// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"golang.org/x/tools/txtar"

	"github.com/dnsconfigurer/dnsconfigurer/internal/libc"
)

// zone has the answers of the servers, as testdata/rules.txtar explains.
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

// TestLookup_Rules looks up the names of testdata/rules.txtar.
func TestLookup_Rules(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/rules.txtar")
	if err != nil || len(archive.Files) < 40 {
		t.Fatal(len(archive.Files), err)
	}
	for _, f := range archive.Files {
		file, z, hostname := "", zone{}, ""
		for line := range strings.Lines(repeated.ReplaceAllStringFunc(string(f.Data), repeat)) {
			line = strings.TrimSpace(line)
			lookup, want, isLookup := strings.Cut(line, " => ")
			key, value, isAnswer := strings.Cut(line, " = ")
			host, isHost := strings.CutPrefix(line, "hostname ")
			switch {
			case isLookup:
				t.Run(f.Name+"/"+lookup, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						library, question, _ := strings.Cut(lookup, " ")
						s := simulator(libc.Library(library), file, z)
						s.Hostname = hostname
						r, err := ask(t.Context(), s, question)
						if diff := cmp.Diff(want, describe(r, strings.Contains(want, "@"))); diff != "" || err != nil {
							t.Errorf("%v (-want +got):\n%s", err, diff)
						}
					})
				})
			case isAnswer:
				z[key] = value
			case isHost:
				hostname = host
			case strings.HasPrefix(line, "nameserver "), strings.HasPrefix(line, "search "), strings.HasPrefix(line, "options "):
				file += line + "\n"
			default:
				t.Fatalf("%s: %s", f.Name, line)
			}
		}
	}
}

// repeated is a text of the rules that stands for many, such as {x*63}.
var repeated = regexp.MustCompile(`{([^*}]+)\*(\d+)}`)

func repeat(text string) string {
	m := repeated.FindStringSubmatch(text)
	n, _ := strconv.Atoi(m[2])
	return strings.Repeat(m[1], n)
}

// ask looks up "NAME", "NAME AAAA" (no addresses of IPv4) or "search NAME TYPE" (with res_search).
func ask(ctx context.Context, s libc.Simulator, question string) (libc.Result, error) {
	words := strings.Fields(question)
	switch {
	case words[0] == "search":
		return s.Search(ctx, words[1], dns.StringToType[words[2]])
	case len(words) == 2:
		return s.Lookup(ctx, words[0], libc.IPv6)
	}
	return s.Lookup(ctx, question, libc.Both)
}

func simulator(l libc.Library, file string, z zone) libc.Simulator {
	return libc.Simulator{
		Library: l, Resolver: l.Read(file), Network: z.network(),
		Hosts: map[string][]netip.Addr{
			"localhost": {netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")},
			"four":      {netip.MustParseAddr("192.0.2.6")},
		},
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
	return strings.Trim(strings.Join(queries, ", ")+": "+result[1:len(result)-1], ": ")
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
	f.Add(uint8(0), "search shop.svc.example svc.example example\noptions ndots:5\n", "a", "x")
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
