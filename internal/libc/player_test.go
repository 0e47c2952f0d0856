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

// zone says how names are answered, "name" or "name TYPE": an address, or one of
// nodata, servfail, refused, cut (over UDP), silent and unreachable. Other names do
// not exist. "@127.0.0.2" is how that server answers, whatever it is asked.
type zone map[string]string

func (z zone) network() libc.Network {
	exchange := func(tcp bool) libc.Exchange {
		return func(ctx context.Context, server netip.Addr, q *dns.Msg) (*dns.Msg, error) {
			question := q.Question[0]
			name := strings.TrimSuffix(question.Name, ".")
			say := "nxdomain"
			for _, key := range []string{name, name + " " + dns.Type(question.Qtype).String(), "@" + server.String()} {
				if s, ok := z[key]; ok {
					say = s
				}
			}
			return answer(ctx, q, say, tcp)
		}
	}
	return libc.Network{UDP: exchange(false), TCP: exchange(true)}
}

func answer(ctx context.Context, q *dns.Msg, say string, tcp bool) (*dns.Msg, error) {
	r := new(dns.Msg).SetReply(q)
	r.RecursionAvailable = true
	switch say {
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
	default:
		h := dns.RR_Header{Name: q.Question[0].Name, Rrtype: q.Question[0].Qtype, Class: dns.ClassINET}
		if a := net.ParseIP(say); h.Rrtype == dns.TypeA && a.To4() != nil {
			r.Answer = []dns.RR{&dns.A{Hdr: h, A: a}}
		} else if h.Rrtype == dns.TypeAAAA && a.To4() == nil {
			r.Answer = []dns.RR{&dns.AAAA{Hdr: h, AAAA: a}}
		}
	}
	return r, nil
}

// pod is the file of an ordinary pod.
const pod = "nameserver 10.96.0.10\nsearch shop.svc.example svc.example example\noptions ndots:5\n"

// two asks two servers, and not for long.
const two = "nameserver 127.0.0.1\nnameserver 127.0.0.2\noptions timeout:1 attempts:1"

// TestLookup tells what each library does, as test/libc proves it.
func TestLookup(t *testing.T) {
	long := strings.Repeat("x.", 125)
	for _, tt := range []struct {
		rule    string
		library libc.Library
		file    string
		zone    zone
		name    string
		want    string // the questions in order, and the result
	}{
		{"too few dots: the domains first", libc.Glibc, pod, zone{"a.svc.example": "192.0.2.1"}, "a", "a.shop.svc.example A, a.shop.svc.example AAAA, a.svc.example A, a.svc.example AAAA: 192.0.2.1"},
		{"and the name last", libc.Glibc, pod, zone{}, "a.b", "a.b.shop.svc.example A, a.b.shop.svc.example AAAA, a.b.svc.example A, a.b.svc.example AAAA, a.b.example A, a.b.example AAAA, a.b A, a.b AAAA: EAI_NONAME"},
		{"enough dots: the name first", libc.Glibc, "search d\n", zone{"a.b.d": "192.0.2.1"}, "a.b", "a.b A, a.b AAAA, a.b.d A, a.b.d AAAA: 192.0.2.1"},
		{"musl: the name and nothing else", libc.Musl, "search d\n", zone{"a.b.d": "192.0.2.1"}, "a.b", "a.b A, a.b AAAA: EAI_NONAME"},
		{"a final dot", libc.Glibc, pod, zone{}, "a.", "a A, a AAAA: EAI_NONAME"},
		{"a final dot, musl", libc.Musl, pod, zone{}, "a.", "a A, a AAAA: EAI_NONAME"},

		{"NODATA is stepped over, and remembered", libc.Glibc, "search d e\n", zone{"a.d": "nodata"}, "a", "a.d A, a.d AAAA, a.e A, a.e AAAA, a A, a AAAA: EAI_NODATA"},
		{"NODATA ends a search of musl", libc.Musl, "search d e\n", zone{"a.d": "nodata", "a.e": "192.0.2.1"}, "a", "a.d A, a.d AAAA: EAI_NONAME"},
		{"SERVFAIL is stepped over", libc.Glibc, "search d e\noptions attempts:1\n", zone{"a.d": "servfail", "a.e": "192.0.2.1"}, "a", "a.d A, a.d AAAA, a.e A, a.e AAAA: 192.0.2.1"},
		{"REFUSED ends the search, save for the name", libc.Glibc, "search d e\noptions attempts:1\n", zone{"a.d": "refused", "a.e": "192.0.2.1"}, "a", "a.d A, a.d AAAA, a A, a AAAA: EAI_NONAME"},
		{"musl: SERVFAIL again four times a round, then the end", libc.Musl, "search d e\noptions attempts:1\n", zone{"a.d A": "servfail", "a.d AAAA": "2001:db8::1"}, "a", "a.d A, a.d AAAA, a.d A, a.d A, a.d A, a.d A: EAI_AGAIN"},
		{"musl is deaf to REFUSED", libc.Musl, "options attempts:1\n", zone{"a": "refused"}, "a", "a A, a AAAA: EAI_AGAIN"},
		{"one family is enough", libc.Glibc, "options attempts:1\n", zone{"a A": "192.0.2.1", "a AAAA": "servfail"}, "a", "a A, a AAAA: 192.0.2.1"},
		{"but not for musl", libc.Musl, "options attempts:1\n", zone{"a A": "192.0.2.1", "a AAAA": "nxdomain"}, "a", "a A, a AAAA: EAI_NONAME"},

		{"the next server", libc.Glibc, two, zone{"@127.0.0.1": "refused", "a": "192.0.2.1"}, "a", "a A @127.0.0.1, a AAAA @127.0.0.1, a A @127.0.0.2, a AAAA @127.0.0.2: 192.0.2.1"},
		{"all servers at once", libc.Musl, two, zone{"@127.0.0.1": "silent", "a": "192.0.2.1"}, "a", "a A @127.0.0.1, a A @127.0.0.2, a AAAA @127.0.0.1, a AAAA @127.0.0.2: 192.0.2.1"},
		{"NXDOMAIN is an answer: no other server", libc.Glibc, two, zone{"@127.0.0.1": "nxdomain", "a": "192.0.2.1"}, "a", "a A @127.0.0.1, a AAAA @127.0.0.1: EAI_NONAME"},
		{"rotate", libc.Glibc, two + " rotate\nsearch d\n", zone{}, "a", "a.d A @127.0.0.1, a.d AAAA @127.0.0.1, a A @127.0.0.2, a AAAA @127.0.0.2: EAI_NONAME"},
		{"attempts", libc.Glibc, "options timeout:1 attempts:3\n", zone{"a": "silent"}, "a", "a A, a AAAA, a A, a AAAA, a A, a AAAA: EAI_AGAIN"},
		{"no server there", libc.Glibc, "search d\noptions attempts:1\n", zone{"@127.0.0.1": "unreachable"}, "a", "a.d A, a.d AAAA: EAI_AGAIN"},
		{"half an answer: one by one from then on", libc.Glibc, "search d\noptions timeout:1 attempts:1\n", zone{"a.d A": "192.0.2.1", "a.d AAAA": "silent"}, "a", "a.d A, a.d AAAA, a.d A, a.d AAAA, a.d A, a.d AAAA: 192.0.2.1"},

		{"truncated: TCP, for both", libc.Glibc, "", zone{"a A": "cut"}, "a", "a A, a AAAA, a A tcp, a AAAA tcp: 192.0.2.1"},
		{"truncated: musl takes what there is", libc.Musl, "", zone{"a": "cut"}, "a", "a A, a AAAA: EAI_NONAME"},
		{"use-vc", libc.Glibc, "options use-vc\n", zone{"a": "192.0.2.1"}, "a", "a A tcp, a AAAA tcp: 192.0.2.1"},
		{"no-aaaa", libc.Glibc, "options no-aaaa\n", zone{"a": "192.0.2.1"}, "a", "a A: 192.0.2.1"},
		{"no-tld-query", libc.Glibc, "search d\noptions no-tld-query\n", zone{"a": "192.0.2.1"}, "a", "a.d A, a.d AAAA: EAI_NONAME"},
		{"the root among the domains", libc.Glibc, "search . d\n", zone{}, "a", "a A, a AAAA, a.d A, a.d AAAA: EAI_NONAME"},
		{"which musl spoils", libc.Musl, "search . d\noptions attempts:1\n", zone{"a.d": "192.0.2.1"}, "a", "a. A malformed, a. AAAA malformed: EAI_AGAIN"},

		{"253 bytes", libc.Glibc, "", zone{}, long + "xyz.", long + "xyz A, " + long + "xyz AAAA: EAI_NONAME"},
		{"254 bytes", libc.Glibc, "", zone{}, long + "wxyz.", ": EAI_NONAME"},
		{"253 bytes, musl", libc.Musl, "", zone{}, long + "xyz", long + "xyz A, " + long + "xyz AAAA: EAI_NONAME"},
		{"254 bytes, musl", libc.Musl, "", zone{}, long + "wxyz", ": EAI_NONAME"},
		{"a candidate that is too long ends the search", libc.Glibc, "search d\noptions ndots:15\n", zone{}, strings.Repeat("x", 63) + "." + strings.Repeat("x", 63) + "." + strings.Repeat("x", 63) + "." + strings.Repeat("x", 61), strings.Repeat("x", 63) + "." + strings.Repeat("x", 63) + "." + strings.Repeat("x", 63) + "." + strings.Repeat("x", 61) + " A, " + strings.Repeat("x", 63) + "." + strings.Repeat("x", 63) + "." + strings.Repeat("x", 63) + "." + strings.Repeat("x", 61) + " AAAA: EAI_NONAME"},
		{"no host name", libc.Glibc, pod, zone{}, "a b", ": EAI_NONAME"},
		{"an address", libc.Glibc, pod, zone{}, "0x7f.1", ": 127.0.0.1"},
		{"an address, musl", libc.Musl, pod, zone{}, "fe80::1%eth0", ": fe80::1%eth0"},
		{"a zone that is none", libc.Glibc, pod, zone{}, "2001:db8::1%eth0", ": EAI_NONAME"},
		{"/etc/hosts", libc.Glibc, pod, zone{}, "LocalHost", ": 127.0.0.1 ::1"},
		{"/etc/hosts has small letters for musl", libc.Musl, "", zone{}, "LocalHost", "LocalHost A, LocalHost AAAA: EAI_NONAME"},
		{"a file that kills", libc.Musl, "options attempts:0\n", zone{}, "a", ": killed"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := player(tt.library, tt.file, tt.zone).Lookup(t.Context(), tt.name, libc.Both)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, told(r, strings.Contains(tt.want, "@"))); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func player(l libc.Library, file string, z zone) libc.Player {
	return libc.Player{
		Library: l, Resolver: l.Read(file), Network: z.network(),
		Hosts: map[string][]netip.Addr{"localhost": {netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}},
	}
}

// told writes a result in one line.
func told(r libc.Result, servers bool) string {
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

// TestHostname: without search domains glibc searches that of the host.
func TestHostname(t *testing.T) {
	for library, want := range map[libc.Library]string{
		libc.Glibc: "a.host.example A, a.host.example AAAA, a A, a AAAA: EAI_NONAME",
		libc.Musl:  "a A, a AAAA: EAI_NONAME",
	} {
		p := player(library, "", zone{})
		p.Hostname = "here.host.example"
		r, err := p.Lookup(t.Context(), "a", libc.Both)
		if got := told(r, false); got != want || err != nil {
			t.Errorf("%s: got %q, %v; want %q", library, got, err, want)
		}
	}
}

// TestPatience compares how long the libraries wait: twice as long for each server,
// and in one go.
func TestPatience(t *testing.T) {
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
			r, err := player(tt.library, tt.file, silent).Lookup(t.Context(), "a", libc.Both)
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

// TestSearch tells what programs get that ask for other records.
func TestSearch(t *testing.T) {
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
		{libc.Musl, dns.TypeTXT, zone{"a.d": "nodata"}, libc.HostNotFound, 1}, // it searches nothing
		{libc.Musl, dns.TypeTXT, zone{"a": "nodata"}, libc.NoRecords, 1},
		{libc.Musl, dns.TypeANY, zone{}, libc.HostNotFound, 1}, // 255
		{libc.Musl, dns.TypeURI, zone{}, libc.Unsaid, 0},       // 256, which it cannot ask for
	} {
		synctest.Test(t, func(t *testing.T) {
			r, err := player(tt.library, "search d\n", tt.zone).Search(t.Context(), "a", tt.qtype)
			if err != nil || r.Error != tt.want || len(r.Queries) != tt.queries {
				t.Errorf("%s %s %v: got %q, %d queries, %v; want %q, %d", tt.library, dns.Type(tt.qtype), tt.zone, r.Error, len(r.Queries), err, tt.want, tt.queries)
			}
		})
	}
}

// TestCancel: a lookup ends with its context, and leaves nothing behind.
func TestCancel(t *testing.T) {
	for _, l := range libc.Libraries() {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			_, err := player(l, "search d e f\n", zone{"@127.0.0.1": "silent"}).Lookup(ctx, "a", libc.Both)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
				t.Errorf("%s: %v after %v", l, err, time.Since(start))
			}
		})
	}
}

// FuzzLookup asks anything of any file: it must end, with no more queries than the
// file allows, each for a name made of the one that was asked for.
func FuzzLookup(f *testing.F) {
	f.Add(true, pod, "a", "x")
	f.Add(false, "search . ..\noptions ndots:15 attempts:9\n", "a.", "srn")
	f.Add(true, "options use-vc rotate single-request\n", `a\.b\`, "cus")
	f.Fuzz(func(t *testing.T, glibc bool, file, name, script string) {
		l := libc.Musl
		if glibc {
			l = libc.Glibc
		}
		said := []string{"silent", "unreachable", "servfail", "refused", "nxdomain", "nodata", "192.0.2.1"}
		p := player(l, file, nil)
		if len(p.Resolver.Search) > 8 || len(script) == 0 {
			return
		}
		p.Network.UDP = func(ctx context.Context, _ netip.Addr, q *dns.Msg) (*dns.Msg, error) {
			i := len(q.Question[0].Name) + int(q.Question[0].Qtype)
			return answer(ctx, q, said[int(script[i%len(script)])%len(said)], false)
		}
		p.Network.TCP = p.Network.UDP
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			r, _ := p.Lookup(ctx, name, libc.Both)
			perName := 2 * (len(p.Resolver.Nameservers) + 4) * (p.Resolver.Attempts + 2) * 3
			if most := perName * (len(p.Resolver.Search) + 2); len(r.Queries) > most {
				t.Errorf("%d queries, want no more than %d", len(r.Queries), most)
			}
			if !glibc {
				return // its names are escaped
			}
			for _, q := range r.Queries {
				if !strings.HasPrefix(q.Name, name) || !slices.Contains([]uint16{dns.TypeA, dns.TypeAAAA}, q.Type) {
					t.Errorf("a query for %q of %q", q.Name, name)
				}
			}
		})
	})
}
