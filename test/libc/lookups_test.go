// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	sim "github.com/dnsconfigurer/dnsconfigurer/internal/libc"
)

// The number of lookups, and limits of their duration.
const (
	lookupCount = 2000
	slowest     = 6 * time.Second
	allSlow     = 360 * time.Second // of all waiting lookups, by twelve workers
)

// lookupCases returns the same cases at each run.
func lookupCases(t *testing.T) []lookupCase {
	r := rand.New(rand.NewPCG(1987, 1035))
	var cases []lookupCase
	var waiting time.Duration
	for len(cases) < lookupCount {
		c := composeLookup(r)
		if c.library.Read(c.conf).Crashes {
			continue
		}
		var took time.Duration
		synctest.Test(t, func(t *testing.T) { took = c.simulate(t.Context(), 0).took })
		if took > slowest || waiting+took > allSlow && took > 0 {
			continue
		}
		waiting += took
		cases = append(cases, c)
	}
	return cases
}

func composeLookup(r *rand.Rand) lookupCase {
	c := lookupCase{release: pickOne(r, []release{glibc236, glibc236, glibc241, musl123, musl125, musl125, goNet, goNet})}
	c.library = simulators[c.release]
	if r.IntN(5) > 1 {
		types := []ask{askIPv4, askIPv6, ask(dns.TypeTXT), ask(dns.TypeSRV), ask(dns.TypeA), ask(dns.TypeAAAA), ask(dns.TypeCAA)}
		if c.library == sim.Go {
			types = []ask{askIPv4, askIPv6, ask(dns.TypeTXT), ask(dns.TypeSRV), ask(dns.TypeMX), ask(dns.TypeNS)}
		}
		c.how = pickOne(r, types)
	}
	c.name = composeName(r)
	servers := composeServers(r)
	c.conf = composeConf(r, servers)
	c.world = composeWorld(r, c.library, servers)
	if c.library == sim.Go && c.how == askBoth {
		c.removeRaces()
	}
	return c
}

// removeRaces removes what depends on the question of Go that is sent or answered first: its
// server under the option rotate, and the error if the two have different ones.
func (c *lookupCase) removeRaces() {
	c.conf = strings.ReplaceAll(c.conf, " rotate", "")
	for i, m := range c.world.manners {
		if m == v4Fail {
			c.world.manners[i] = servfail
		}
	}
}

func composeName(r *rand.Rand) string {
	if r.IntN(4) > 0 {
		return pick(r, []string{"a", "web", "web.shop", "web.shop.svc", "www.corp.example",
			"www.corp.example.", "a.b.c.d.e.f", "WEB.Shop", "web.", "a_b", "a.onion", "_x._tcp.shop", "a-"})
	}
	label, tail := strings.Repeat("x", 63), "."+strings.Repeat("y", 59)
	return pick(r, []string{
		"10.0.0.1", "127.1", "0x7f000001", "256.1.1.1", "1.2.3.4.5", "10.0.0.1%lo", "10.0.0.1.",
		"::1", "::ffff:10.0.0.1", "fe80::1%lo", "2001:db8::1%1", "2001:db8::1%lo", "::1%", ":::",
		"-a", "a.-b", "a b", "a*b", "\u00e4", "a@b", "a..b", ".a", "a..", ".", "..", "", "a\\.b", "a\\", "a/b", "a:b",
		label, label + "x", label + "." + label, "a." + label + "x.b",
		label + "." + label + "." + label + tail, label + "." + label + "." + label + tail + "y",
		label + "." + label + "." + label + tail + "yy", label + "." + label + "." + label + tail + "yyy",
		label + "." + label + "." + label + tail + "y.",
		strings.Repeat("z.", 120) + "z", strings.Repeat("z.", 126) + "z", strings.Repeat("z.", 126) + "zz",
		strings.Repeat("z.", 127) + "z", strings.Repeat("x", 300),
	})
}

func composeServers(r *rand.Rand) []string {
	all := []string{"127.0.0.1", "127.0.0.2", "127.0.0.3", "::1", "127.0.0.9"} // there is no server at the last
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:pickOne(r, []int{1, 1, 2, 2, 3})]
}

func composeConf(r *rand.Rand, servers []string) string {
	var b strings.Builder
	for _, s := range servers {
		fmt.Fprintf(&b, "nameserver %s\n", s)
	}
	if r.IntN(8) > 0 {
		domains := []string{"one.example", "two.example", "shop.svc.cluster.local", "svc.cluster.local",
			"three", "four.", ".", "..", "a..b", strings.Repeat("d", 64) + ".example", strings.Repeat("long.", 34) + "example"}
		n := len(domains)
		if r.IntN(4) > 0 {
			n = 5
		}
		domains = domains[:n]
		r.Shuffle(n, func(i, j int) { domains[i], domains[j] = domains[j], domains[i] })
		fmt.Fprintf(&b, "search %s\n", strings.Join(domains[:1+r.IntN(min(n, 5))], " "))
	}
	fmt.Fprintf(&b, "options timeout:1 attempts:%d ndots:%d", 1+r.IntN(2), pickOne(r, []int{0, 1, 1, 2, 3, 5}))
	for _, o := range []string{"rotate", "edns0", "single-request", "single-request-reopen",
		"use-vc", "no-aaaa", "trust-ad", "no-tld-query"} {
		if r.IntN(10) == 0 {
			b.WriteString(" " + o)
		}
	}
	return b.String() + "\n"
}

// composeWorld makes most names nonexistent, so that searches continue. What musl uses of
// several servers with different replies depends on the fastest; so its servers differ
// only in that some do not reply.
func composeWorld(r *rand.Rand, l sim.Library, servers []string) world {
	w := world{seed: r.Uint64(), moods: map[string]manner{}}
	known := []manner{both, both, v4, v6, alias, badAlias, dangling, otherName, nodata, nodata,
		refused, notimp, formerr, lame, cut, halfGone, otherGone, halfCut, halfLame}
	failing := []manner{servfail, servfail, halfFail, otherFail, v4Fail, cutFail}
	if !l.QueriesAllServers() {
		known = append(known, failing...)
	} else if r.IntN(8) == 0 {
		known = failing
	}
	if r.IntN(8) == 0 {
		known = append(known, silent, halfSilent, otherSilent)
	}
	for range 1 + r.IntN(4) {
		w.manners = append(w.manners, pickOne(r, known))
	}
	for range r.IntN(7) {
		w.manners = append(w.manners, pickOne(r, []manner{nxdomain, nxdomain, nxdomain, nodata}))
	}
	moods := []manner{servfail, refused, nxdomain, lame, silent}
	if l.QueriesAllServers() {
		moods = []manner{refused, silent}
	}
	if r.IntN(4) == 0 {
		w.moods[pickOne(r, servers)] = pickOne(r, moods)
	}
	if w.fails() && l.QueriesAllServers() {
		w.moods = nil
	}
	return w
}
