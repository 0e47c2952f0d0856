// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package autopath

import (
	"slices"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

func zone(t testing.TB) Zone {
	t.Helper()
	return must.Get(NewZone(name(t, "cluster.local")))(t)
}

// Names, their kinds and requests.
func TestParse_Kinds(t *testing.T) {
	z := zone(t)
	tests := []struct {
		name    string
		kind    Kind
		request string // NAME in NAMESPACE
	}{
		{"web.search.shop.cluster.local.ap.k8s.io", Search, "web. in shop"},
		{"WEB.Search.SHOP.Cluster.Local.AP.K8s.IO", Search, "web. in shop"},
		{"a.b.c.d.e.f.search.shop.cluster.local.ap.k8s.io", Search, "a.b.c.d.e.f. in shop"},
		{"_http._tcp.web.search.shop.cluster.local.ap.k8s.io", Search, "_http._tcp.web. in shop"},

		// The last search counts: any name may have the label in it, also as its first.
		{"search.search.shop.cluster.local.ap.k8s.io", Search, "search. in shop"},
		{"web.search.x.search.shop.cluster.local.ap.k8s.io", Search, "web.search.x. in shop"},
		{"web.search.search.cluster.local.ap.k8s.io", Search, "web. in search"},
		{"web.search.shop.cluster.local.ap.k8s.io.search.shop.cluster.local.ap.k8s.io", Search,
			"web.search.shop.cluster.local.ap.k8s.io. in shop"},

		{"ap.k8s.io", EmptyNonTerminal, ""},
		{"local.ap.k8s.io", EmptyNonTerminal, ""},
		{"cluster.local.ap.k8s.io", EmptyNonTerminal, ""},
		{"shop.cluster.local.ap.k8s.io", EmptyNonTerminal, ""},
		{"search.shop.cluster.local.ap.k8s.io", EmptyNonTerminal, ""},

		{"x.ap.k8s.io", Malformed, ""},
		{"x.local.ap.k8s.io", Malformed, ""},
		{"find.shop.cluster.local.ap.k8s.io", Malformed, ""},
		{"web.find.shop.cluster.local.ap.k8s.io", Malformed, ""},
		{"web.search.shop.other.ap.k8s.io", Malformed, ""},
		{"web.search.shop.xcluster.local.ap.k8s.io", Malformed, ""},
		{`web.search.shop.x\.cluster.local.ap.k8s.io`, Malformed, ""}, // one label, not two
		{`web.search\.shop.cluster.local.ap.k8s.io`, Malformed, ""},

		{"k8s.io", NotInZone, ""},
		{"xap.k8s.io", NotInZone, ""},
		{`x\.ap.k8s.io`, NotInZone, ""},
		{"web.search.shop.cluster.local", NotInZone, ""},
		{".", NotInZone, ""},
	}
	for _, tt := range tests {
		kind, request := z.Parse(name(t, tt.name))
		got := ""
		if kind == Search {
			got = request.Name.String() + " in " + request.Namespace
		}
		if kind != tt.kind || got != tt.request {
			t.Errorf("%s: kind %d, %q; want %d, %q", tt.name, kind, got, tt.kind, tt.request)
		}
	}
}

// Both sides of each limit of the domain.
func TestNewZone_Errors(t *testing.T) {
	long := func(n int) string { // a name of n octets on the wire
		text := strings.Repeat("a.", (n-1-4)/2) + "ab"
		if n%2 == 1 {
			text = strings.Repeat("a.", (n-1-4)/2) + "abc"
		}
		return text
	}
	const suffix = len("\x02ap\x03k8s\x02io\x00")
	const shortest = len("\x01x\x06search\x01x")
	for domain, want := range map[string]string{
		"cluster.local": "",
		"k8s.io":        "", // the cluster lacks the label ap then
		long(fqdn.MaxWire - suffix - shortest + 1): "",
		long(fqdn.MaxWire - suffix - shortest + 2): "leave no room",
		long(fqdn.MaxWire):                         "leave no room",
		"test.ap.k8s.io":                           "is below the suffix ap.k8s.io.",
		"ap.k8s.io":                                "is below the suffix ap.k8s.io.",
		".":                                        "must not be empty or the root",
	} {
		_, err := NewZone(name(t, domain))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", domain, err, want)
		}
	}
}

func TestCandidates_Order(t *testing.T) {
	z := zone(t)
	long := strings.Repeat("a.", 120) + "a" // 243 octets on the wire
	tests := []struct {
		what, name string
		paths      []fqdn.Name
		want       []string
	}{
		{"a pod's", "web", z.SearchPaths("shop", names(t, "corp.example")),
			[]string{"web.shop.svc.cluster.local.", "web.svc.cluster.local.", "web.cluster.local.", "web.corp.example.", "web."}},
		{"none", "web", nil, []string{"web."}},
		{"the same domain twice", "web", names(t, "a", "b", "A"), []string{"web.a.", "web.b.", "web."}},
		{"a domain that leads to the bare name", "web.a", names(t, "."), []string{"web.a."}},
		{"a domain in the zone: no nested expansion", "web",
			names(t, "search.shop.cluster.local.ap.k8s.io", "b"), []string{"web.b.", "web."}},
		{"a name in the zone", "web.ap.k8s.io", names(t, "b"), []string{"web.ap.k8s.io.b."}},
		{"a candidate as long as a name", long, names(t, "bbbbb.ccccc"), []string{long + ".bbbbb.ccccc.", long + "."}},
		{"one octet longer", long, names(t, "bbbbb.cccccc", "b"), []string{long + ".b.", long + "."}},
		{"the root", ".", names(t, "a"), nil},
	}
	for _, tt := range tests {
		var got []string
		for _, c := range z.Candidates(name(t, tt.name), tt.paths) {
			got = append(got, c.String())
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}

// FuzzParse checks that every name has a kind, that the request of a name to expand makes
// up the name again, and that no name above it is Malformed (RFC 8020).
func FuzzParse(f *testing.F) {
	for _, text := range []string{"web.search.shop.cluster.local.ap.k8s.io",
		"search.shop.cluster.local.ap.k8s.io", "x.ap.k8s.io", "a.search.search.search.cluster.local.ap.k8s.io"} {
		f.Add(text)
	}
	z := zone(f)
	f.Fuzz(func(t *testing.T, text string) { checkParse(t, z, text) })
}

// checkParse checks the properties of the kind and the request of one name.
func checkParse(t *testing.T, z Zone, text string) {
	n, err := fqdn.ParseName(text)
	if err != nil {
		return
	}
	kind, request := z.Parse(n)
	_, inZone := n.Within(Suffix)
	if inZone != (kind != NotInZone) {
		t.Fatalf("%v has kind %d", n, kind)
	}
	if kind != Search {
		if request != (Request{}) {
			t.Fatalf("%v has kind %d and requests %v", n, kind, request)
		}
		return
	}
	whole, ok := join(request.Name, fqdn.Join(z.base, "search", request.Namespace))
	if !ok || whole != n {
		t.Fatalf("%v requests %v in %q", n, request.Name, request.Namespace)
	}
	for _, p := range z.SearchPaths(request.Namespace, nil) { // does not panic, and fits
		if len(p) >= len(n) {
			t.Fatalf("%v has the search path %v", n, p)
		}
	}
	for above := n; above != Suffix; {
		_, above = above.Cut()
		if kind, _ := z.Parse(above); kind != Search && kind != EmptyNonTerminal {
			t.Fatalf("%v is below %v, which has kind %d", n, above, kind)
		}
	}
}
