// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

func newEngine(t testing.TB, n policy.Node) *policy.Engine {
	t.Helper()
	return must.Get(policy.New(n))(t)
}

var kubeadm = policy.Node{
	ClusterDNS:    []netip.Addr{netip.MustParseAddr("10.96.0.10")},
	ClusterDomain: "cluster.local",
	ResolvConf:    "/etc/resolv.conf",
}

// domains returns n different domains of the given length each.
func domains(n, length int) []string {
	list := make([]string, n)
	for i := range list {
		s := fmt.Sprintf("d%02d.", i)
		for len(s) < length {
			s += strings.Repeat("x", min(60, length-len(s))) + "."
		}
		list[i] = s[:length-1] + "z"
	}
	return list
}

// pair returns two domains, of a and b bytes.
func pair(a, b int) []string { return []string{domains(1, a)[0], domains(2, b)[1]} }

// domainsOfTotal returns domains that have total bytes when joined by spaces.
func domainsOfTotal(total int) []string {
	list := domains(8, 252)
	rest := total - len(strings.Join(list, " ")) - 1
	return append(list, domains(1, rest)[0])
}

// TestDecide_LibraryLimits checks the last search list within a limit of a C library, and the first beyond
// it. test/vectors has both sides of the limits of the kubelet, and test/cluster compares with it.
func TestDecide_LibraryLimits(t *testing.T) {
	for _, tt := range []struct {
		name     string
		searches []string
		want     []policy.Code
	}{
		{"a label of 63 bytes", []string{strings.Repeat("l", 63)}, nil},
		{"a label of 64 bytes", []string{strings.Repeat("l", 64)}, []policy.Code{policy.CodeUnusableDomain}},
		{"a line of 254 bytes for musl", domains(2, (254-8)/2), nil},
		{"a line of 255 bytes for musl", pair(123, 124), []policy.Code{policy.CodeMuslSearchLine}},
		{"256 bytes for old glibc", pair(127, 128), []policy.Code{policy.CodeMuslSearchLine}},
		{"257 bytes for old glibc", pair(128, 128), []policy.Code{policy.CodeMuslSearchLine, policy.CodeOldGlibcSearch}},
		{"6 domains for old glibc", domains(6, 7), nil},
		{"7 domains for old glibc", domains(7, 7), []policy.Code{policy.CodeOldGlibcSearch}},
	} {
		pod := policy.Pod{Name: "p", Namespace: "n", Policy: policy.None,
			Config: &policy.DNSConfig{Nameservers: []string{"192.0.2.1"}, Searches: tt.searches}}
		d := newEngine(t, kubeadm).Decide(pod, resolvconf.File{})
		var codes []policy.Code
		for _, f := range d.Findings {
			codes = append(codes, f.Code)
		}
		if diff := cmp.Diff(tt.want, codes); diff != "" || len(d.Searches) != len(tt.searches) {
			t.Errorf("%s: %d domains kept, findings (-want +got):\n%s", tt.name, len(d.Searches), diff)
		}
	}
}

// TestCheckHost_Messages checks rule L4, the kubelet's check of its own file.
func TestCheckHost_Messages(t *testing.T) {
	search := func(list []string) string { return "search " + strings.Join(list, " ") + "\n" }
	tests := []struct {
		name, domain, host string
		want               string
	}{
		{"29 domains and a cluster domain", "cluster.local", search(domains(29, 7)), ""},
		{"30 domains and a cluster domain", "cluster.local", search(domains(30, 7)),
			"Resolv.conf file '/etc/resolv.conf' contains search line consisting of more than 29 domains!"},
		{"32 domains", "", search(domains(32, 7)), ""},
		{"33 domains", "", search(domains(33, 7)),
			"Resolv.conf file '/etc/resolv.conf' contains search line consisting of more than 32 domains!"},
		{"253 bytes", "", search(domains(1, 253)), ""},
		{"254 bytes", "", search(domains(1, 254)),
			`Resolv.conf file "/etc/resolv.conf" contains a search path which length is more than allowed 253 chars!`},
		{"2048 bytes", "", search(domainsOfTotal(2048)), ""},
		{"2049 bytes", "", search(domainsOfTotal(2049)),
			"Resolv.conf file '/etc/resolv.conf' contains search line which length is more than allowed 2048 chars!"},
		{"a bad line", "", "nameserver\n", "nameserver list is empty "},
		{"Latin-1", "", "nameserver 192.0.2.1\nsearch a caf\xe9.example\n",
			`/etc/resolv.conf:2: search "caf\xe9.example" is not UTF-8 and is dropped`},
		{"NUL", "", "nameserver 192.0.2.1\noptions a\x00\n",
			`/etc/resolv.conf:2: options "a\x00" would break out of its line in resolv.conf and is dropped`},
		{"3 nameservers", "", strings.Repeat("nameserver 192.0.2.1\n", 3), ""},
		{"4 nameservers", "", "search a\n" + strings.Repeat("nameserver 192.0.2.1\n", 4),
			"/etc/resolv.conf:5: 4 nameservers: pods get the first 3"},
		{"systemd-resolved's stub", "", "options edns0\nnameserver 127.0.0.53\n",
			"/etc/resolv.conf:2: nameserver 127.0.0.53 is an address of the node, unreachable from the pod network"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := newEngine(t, policy.Node{ClusterDomain: tt.domain, ResolvConf: "/etc/resolv.conf"}).CheckHost(
				resolvconf.Parse(tt.host))
			got := ""
			for _, f := range found {
				got += f.Message
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	missing := resolvconf.File{Err: errors.New("open /etc/resolv.conf: no such file or directory")}
	if found := newEngine(t, kubeadm).CheckHost(missing); len(found) != 1 || found[0].Message != missing.Err.Error() {
		t.Errorf("missing file: %v", found)
	}
	if found := newEngine(t, policy.Node{}).CheckHost(missing); found != nil {
		t.Errorf("node without a host file: %v", found)
	}
}

func TestNew_Errors(t *testing.T) {
	tests := []struct {
		node policy.Node
		want string
	}{
		{policy.Node{}, ""},
		{policy.Node{ClusterDomain: "Cluster.Local."}, ""}, // the kubelet never checks it
		{policy.Node{ClusterDomain: "a b"}, `clusterDomain: "a b": want one DNS name, such as cluster.local`},
		{policy.Node{ClusterDomain: "a\nnameserver 192.0.2.1"},
			`clusterDomain: "a\nnameserver 192.0.2.1": want one DNS name, such as cluster.local`},
		{policy.Node{ClusterDNS: []netip.Addr{{}}}, `clusterDNS[0]: "invalid IP" is not an address without a zone`},
		{policy.Node{ClusterDNS: []netip.Addr{netip.MustParseAddr("fe80::1%eth0")}},
			`clusterDNS[0]: "fe80::1%eth0" is not an address without a zone`},
		{policy.Node{AllowedOverrides: []policy.Policy{"None", "none"}}, `allowedOverrides[1]: "none" is not a DNS policy`},
		{policy.Node{IPs: []netip.Addr{{}}}, "nodeIPs[0]: is not an address"},
		{policy.Node{Autopath: policy.Autopath{Suffix: "a b"}}, `autopath.suffix: "a b" must be a domain name without a final dot`},
		{policy.Node{Autopath: policy.Autopath{Suffix: ".ap.example"}},
			`autopath.suffix: ".ap.example" must be a domain name without a final dot`},
		{policy.Node{Autopath: policy.Autopath{Suffix: "ap.example."}},
			`autopath.suffix: "ap.example." must be a domain name without a final dot`},
		{policy.Node{Autopath: policy.Autopath{Suffix: "ap.example"}}, ""},
	}
	for _, tt := range tests {
		_, err := policy.New(tt.node)
		if got := fmt.Sprint(err); got != tt.want && (err != nil || tt.want != "") {
			t.Errorf("New(%+v): %q, want %q", tt.node, got, tt.want)
		}
	}
}

// TestDecide_AutopathDomainTooLong checks that a pod whose autopath domain is too long for a
// name is treated as ClusterFirstWithHostNet.
func TestDecide_AutopathDomainTooLong(t *testing.T) {
	pod := policy.Pod{Name: "p", Namespace: "n", Policy: policy.ClusterFirstWithAutopath}
	for _, tt := range []struct {
		bytes int
		want  bool
	}{{253, true}, {254, false}} {
		node := kubeadm
		node.ClusterDomain = domains(1, tt.bytes-len("search.n..ap.k8s.io"))[0]
		d := newEngine(t, node).Decide(pod, resolvconf.File{})
		autopath := func(r policy.Rule) bool { return r.String() == "A1" }
		if got := slices.ContainsFunc(d.Steps, autopath); got != tt.want {
			t.Errorf("a domain of %d bytes: autopath %v, want %v", tt.bytes, got, tt.want)
		}
	}
}

// TestDecide_LargeHostFile decides with a host file of half the size that the kubelet allows.
// It takes minutes if the work is quadratic in the number of domains.
func TestDecide_LargeHostFile(t *testing.T) {
	var b strings.Builder
	b.WriteString("search")
	for i := 0; b.Len() < resolvconf.MaxFile/2; i++ {
		fmt.Fprintf(&b, " s%d", i%50_000)
	}
	host := resolvconf.Parse(b.String())
	for _, p := range []policy.Policy{policy.Default, policy.ClusterFirst, policy.None} {
		d := newEngine(t, kubeadm).Decide(policy.Pod{Name: "p", Policy: p,
			Config: &policy.DNSConfig{Nameservers: []string{"192.0.2.1"}}}, host)
		if d.Error != "" || len(d.Searches) > policy.MaxSearches {
			t.Errorf("%s: %d domains, error %q", p, len(d.Searches), d.Error)
		}
	}
}

func TestString_InvalidNumbers(t *testing.T) {
	if s := policy.Rule(200).String() + policy.Rule(200).Text() + policy.Kind(200).String(); s != "" {
		t.Errorf("%q", s)
	}
}

// maxObject is the limit of the API server for an object, in bytes of JSON
// (MaxRequestBodyBytes in k8s.io/apiserver/pkg/server).
const maxObject = 3 << 20

// largePods returns pods that have maxObject bytes of JSON in one list or one text, more than
// the API server accepts in most of them: a webhook gets pods that are not validated yet.
func largePods() map[string]policy.Pod {
	const unsafe = "\n"
	repeat := func(s string) []string { return slices.Repeat([]string{s}, maxObject/len(`"\n",`)) }
	various := make([]string, maxObject/len(`"d123456",`))
	for i := range various {
		various[i] = fmt.Sprint("d", i)
	}
	option := func(texts []string, value string) (options []policy.Option) {
		for _, s := range texts[:len(texts)/2] {
			options = append(options, policy.Option{Name: s, Value: value})
		}
		return options
	}
	long := strings.Repeat("a", maxObject)
	config := func(c policy.DNSConfig) policy.Pod { return policy.Pod{Config: &c} }
	return map[string]policy.Pod{
		"unsafe options":       config(policy.DNSConfig{Options: option(repeat(unsafe), "")}),
		"unsafe values":        config(policy.DNSConfig{Options: option(repeat("ndots"), unsafe)}),
		"equal options":        config(policy.DNSConfig{Options: option(repeat("ndots"), "5")}),
		"various options":      config(policy.DNSConfig{Options: option(various, "5")}),
		"a long option":        config(policy.DNSConfig{Options: []policy.Option{{Name: long}}}),
		"a long unsafe option": config(policy.DNSConfig{Options: []policy.Option{{Name: strings.Repeat(unsafe, maxObject)}}}),
		"unsafe searches":      config(policy.DNSConfig{Searches: repeat(unsafe)}),
		"equal searches":       config(policy.DNSConfig{Searches: repeat("a")}),
		"various searches":     config(policy.DNSConfig{Searches: various}),
		"a long search":        config(policy.DNSConfig{Searches: []string{long}}),
		"unsafe nameservers":   config(policy.DNSConfig{Nameservers: repeat(unsafe)}),
		"various nameservers":  config(policy.DNSConfig{Nameservers: various}),
		"a long nameserver":    config(policy.DNSConfig{Nameservers: []string{long}}),
		"a long name":          {Name: long},
		"a long unsafe name":   {Name: strings.Repeat(unsafe, maxObject)},
		"a long namespace":     {Namespace: long, Policy: policy.ClusterFirstWithAutopath, Subdomain: "s", SetHostnameAsFQDN: true},
		"a long hostname":      {Hostname: strings.Repeat(unsafe, maxObject)},
		"a long subdomain":     {Subdomain: long, SetHostnameAsFQDN: true},
		"a long override":      {HostnameOverride: &long},
		"a long policy":        {Policy: policy.Policy(long)},
		"a long annotation":    {Override: policy.Policy(long)},
	}
}

// TestDecide_LargePods bounds the findings, the texts and the memory of decisions about pods
// of maxObject bytes.
func TestDecide_LargePods(t *testing.T) {
	const (
		maxFindings  = 200             // of all codes: one code has many
		maxFinding   = 20 << 10        // bytes of text
		maxMallocs   = 1_000_000       // an option has at least 10 bytes of JSON, and takes two allocations
		maxAllocated = 150 * maxObject // an entry of 4 bytes of JSON takes 32, and lists grow by a quarter
		maxExplained = 5 << 20         // 1,000 rows of four lists, and a few long texts
	)
	for name, pod := range largePods() {
		if pod.Policy == "" {
			pod.Policy = policy.ClusterFirst
		}
		e := newEngine(t, kubeadm)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d := e.Decide(pod, resolvconf.File{})
		e.KubeletConfig(pod, resolvconf.File{})
		runtime.ReadMemStats(&after)
		mallocs, allocated := after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
		if mallocs > maxMallocs || allocated > maxAllocated || len(d.Findings) > maxFindings {
			t.Errorf("%s: %d allocations, %d bytes, %d findings", name, mallocs, allocated, len(d.Findings))
		}
		for _, f := range d.Findings {
			if n := len(f.Message) + len(f.Hint) + len(f.Field); n > maxFinding {
				t.Errorf("%s: finding %s has %d bytes: %.200s", name, f.Code, n, f.Message)
			}
		}
		if n := len(d.Error); n > maxFinding {
			t.Errorf("%s: error of %d bytes", name, n)
		}
		if n := len(d.Explain()); n > maxExplained {
			t.Errorf("%s: explanation of %d bytes", name, n)
		}
	}
}

// TestDecide_FindingsLimit has as many unsafe options as there are findings of one code, and
// one more. The last finding counts those that are left out; no option is kept.
func TestDecide_FindingsLimit(t *testing.T) {
	for _, unsafe := range []int{policy.MaxFindings - 1, policy.MaxFindings, policy.MaxFindings + 1, 200_000} {
		config := &policy.DNSConfig{Searches: slices.Repeat([]string{"a b"}, 2),
			Options: slices.Repeat([]policy.Option{{Name: "\n"}}, unsafe-2)}
		config.Searches = append(config.Searches, strings.Repeat("l", 64)) // another finding behind these
		d := newEngine(t, kubeadm).Decide(policy.Pod{Namespace: "n", Name: "p", Policy: policy.ClusterFirst, Config: config},
			resolvconf.File{})
		n, more, others := 0, 0, 0
		for _, f := range d.Findings {
			if f.Code == policy.CodeUnsafeValue {
				n++
				more += f.More
			} else {
				others++
			}
		}
		if n != min(unsafe, policy.MaxFindings) || n+more != unsafe || others != 1 || len(d.Options) != 1 {
			t.Errorf("%d unsafe values: %d findings and %d more, %d others, options %v", unsafe, n, more, others, d.Options)
		}
	}
}

// TestCheckHost_FindingsLimit has a host file with many nameservers on the loopback. The last
// finding is about their number.
func TestCheckHost_FindingsLimit(t *testing.T) {
	host := resolvconf.Parse(strings.Repeat("nameserver 127.0.0.1\n", 100_000))
	found := newEngine(t, kubeadm).CheckHost(host)
	n := len(found) - 1
	if n != policy.MaxFindings || found[n-1].More != 100_000-n || found[n].Code != policy.CodeServerLimit {
		t.Errorf("%d findings", n+1)
	}
}
