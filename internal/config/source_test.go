// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// newFile writes a configuration file.
func newFile(t *testing.T, kind, fields string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file.yaml")
	writeFile(t, path, kind, fields)
	return path
}

func writeFile(t *testing.T, path, kind, fields string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(path, []byte("apiVersion: "+v1alpha1.GroupVersion+"\nkind: "+kind+"\n"+fields), 0o600))
}

// The kinds of the tests, without the checks of the servers.
type (
	dns       struct{ v1alpha1.DNSConfiguration }
	nodeCache struct {
		v1alpha1.NodeCacheConfiguration
	}
	shim    struct{ v1alpha1.ShimConfiguration }
	agent   struct{ v1alpha1.AgentConfiguration }
	webhook struct{ v1alpha1.WebhookConfiguration }
)

func dnsKind() *Kind[dns] {
	return &Kind[dns]{Check: func(c *dns, p *Problems) {
		if len(c.Manifests) > 0 && (c.Kubeconfig != "" || c.Snapshot != "") {
			p.AddConflict("manifests", "kubeconfig", "snapshot")
		}
	}}
}

// newDNSSource returns a source with these arguments.
func newDNSSource(t *testing.T, args ...string) *Source[dns] {
	t.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	source := dnsKind().FromFlags(flags)
	must.Succeed(t, flags.Parse(args))
	return source
}

// TestSource_Load has flags and a file that name the same fields.
func TestSource_Load(t *testing.T) {
	path := newFile(t, v1alpha1.KindDNS, "ttl: 0\npods: disabled\nupstreams: [192.0.2.1]\nclusterDomain: file.example\n")
	c := must.Get(newDNSSource(t, "--config", path, "--upstream=192.0.2.2,192.0.2.3", "--upstream", "192.0.2.4",
		"--cluster-domain", "Flag.Example.").Load())(t)
	if *c.TTL != 0 || c.Pods != "disabled" || c.ClusterDomain != "flag.example" ||
		c.Lameduck != "0s" || *c.ResolvConf != "/etc/resolv.conf" ||
		!slices.Equal(c.Upstreams, []string{"192.0.2.2", "192.0.2.3", "192.0.2.4"}) || !slices.Equal(c.Listen, []string{"127.0.0.1:53"}) {
		t.Errorf("%+v", c)
	}
}

// TestSource_Merged: flags and file are validated together, so that a value is checked against
// the values that the server uses, and a flag can end a conflict in the file.
func TestSource_Merged(t *testing.T) {
	for _, tt := range []struct{ name, fields, flag string }{
		{"a flag that ends a conflict", "manifests: [m]\nkubeconfig: k\n", "--kubeconfig="},
		{"a flag that replaces an invalid value", "http: x\n", "--http=127.0.0.1:9153"},
	} {
		if _, err := newDNSSource(t, "--config", newFile(t, v1alpha1.KindDNS, tt.fields), tt.flag).Load(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestSource_Errors(t *testing.T) {
	manifests := newFile(t, v1alpha1.KindDNS, "manifests: [m]\n")
	for _, tt := range []struct {
		name   string
		source *Source[dns]
		want   string
		flag   bool
	}{
		{"in the file", newDNSSource(t, "--config", newFile(t, v1alpha1.KindDNS, "ttl: 3601\nlisten: [a]\n")), "listen[0]: ", false},
		{"in a flag", newDNSSource(t, "--config", manifests, "--listen", "a"), `--listen: "a" is not an IP address with a port`, true},
		{"two flags", newDNSSource(t, "--manifests", "m", "--kubeconfig", "k"),
			"--manifests: cannot be combined with --kubeconfig or snapshot", true},
		{"flag and file", newDNSSource(t, "--config", manifests, "--kubeconfig", "k"),
			manifests + ":3:1: manifests: cannot be combined with --kubeconfig or " + manifests + ":1:1: snapshot", false},
	} {
		_, err := tt.source.Load()
		_, isFlag := errors.AsType[usage.Error](err)
		if err == nil || isFlag != tt.flag {
			t.Errorf("%s: %v, a usage.Error: %v, want %v", tt.name, err, isFlag, tt.flag)
		}
		if tt.name != "in the file" && err.Error() != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, err, tt.want)
		}
	}
}

// TestSource_Changed: a change is reported when two polls have found the same.
func TestSource_Changed(t *testing.T) {
	path := newFile(t, v1alpha1.KindDNS, "")
	source := newDNSSource(t, "--config", path)
	load := func() {
		t.Helper()
		must.Get(source.Load())(t)
	}
	expect := func(name string, want ...bool) {
		t.Helper()
		for i, w := range want {
			if got := source.Changed(); got != w {
				t.Errorf("%s, poll %d: %v, want %v", name, i, got, w)
			}
		}
	}
	load()
	expect("unchanged", false, false)
	writeFile(t, path, v1alpha1.KindDNS, "ttl: 1\n")
	expect("changed", false, true, true)
	load()
	expect("loaded", false)
	must.Succeed(t, os.Remove(path))
	expect("removed", false, true)
	writeFile(t, path, v1alpha1.KindDNS, "ttl: 1\n")
	expect("restored", false, false)
}

// TestKind_NeedRestart compares values and not their spelling.
func TestKind_NeedRestart(t *testing.T) {
	load := func(fields string) dns {
		t.Helper()
		return must.Get(dnsKind().FromFile(newFile(t, v1alpha1.KindDNS, fields)).Load())(t)
	}
	running := load("")
	for _, tt := range []struct {
		fields string
		want   []string
	}{
		{"listen: ['127.0.0.1:53']\nttl: 5\nclusterDomain: Cluster.Local.\npods: insecure\nlameduck: 0s\n", nil},
		{"upstreams: [192.0.2.1]\nresolvConf: ''\nstubDomains: [{zone: a, servers: [192.0.2.1]}]\n", nil},
		{"logFormat: json\nlisten: ['127.0.0.2:53']\nsnapshot: p\n",
			[]string{"logFormat", "listen", "snapshot"}},
	} {
		if got := dnsKind().NeedRestart(running, load(tt.fields)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.fields, got, tt.want)
		}
	}
}

// TestProblem_Overlaps: an error of a field hides those of its parts and of its parents, which may follow from it, and
// not those of a field whose name begins alike.
func TestProblem_Overlaps(t *testing.T) {
	for paths, want := range map[[2]string]bool{
		{"listen", "listen"}:                      true,
		{"listen", "listen[1]"}:                   true,
		{"listen[1]", "listen"}:                   true,
		{"node", "node.clusterDNS"}:               true,
		{"listen[1]", "listen[10]"}:               false,
		{"clusterDNS", "clusterDNSFallback"}:      false,
		{"stubDomains[0].zone", "stubDomains[1]"}: false,
	} {
		first, second := problem{paths: []string{paths[0]}}, problem{paths: []string{paths[1]}}
		if got := first.overlaps(second); got != want {
			t.Errorf("%q: got %t, want %t", paths, got, want)
		}
	}
}

// TestKind_Defaults: the printed files have the defaults of an empty file.
func TestKind_Defaults(t *testing.T) {
	testDefaults(t, &Kind[shim]{})
	testDefaults(t, &Kind[agent]{})
	testDefaults(t, &Kind[dns]{})
	testDefaults(t, &Kind[nodeCache]{})
	testDefaults(t, &Kind[webhook]{})
}

func testDefaults[C any](t *testing.T, k *Kind[C]) {
	t.Helper()
	text := must.Get(v1alpha1.Defaults(k.Name()))(t)
	printed := must.Get(k.FromText(File{k.Name() + ".yaml", text}).Load())(t)
	empty := k.Defaults()
	for _, f := range k.fields() {
		if diff := cmp.Diff(f.in(api(&empty)).Interface(), f.in(api(&printed)).Interface(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s (-empty file +printed):\n%s", k.Name(), f.path, diff)
		}
		if v1alpha1.Comment(f.of, f.name()) == "" {
			t.Errorf("%s: %s has no comment", k.Name(), f.path)
		}
		if format := f.tag.Get("format"); format != "" && formats[format] == nil {
			t.Errorf("%s: %s: unknown format %q", k.Name(), f.path, format)
		}
	}
}

// TestCheckValues has the values of fields on both sides of each limit.
func TestCheckValues(t *testing.T) {
	long := "/" + strings.Repeat("x", maxSocketPath-1)
	for _, tt := range []struct {
		kind, text string
		want       string // "": valid
	}{
		{"dns", "ttl: 3600", ""},
		{"dns", "ttl: 3601", "ttl: 3601: want 0 to 3600"},
		{"dns", "maxQueries: 100\nmaxMemory: 4Mi", ""},
		{"dns", "maxQueries: 99", "maxQueries: 99: want 100 to 65535"},
		{"dns", "maxQueries: 65535\nmaxMemory: 1Gi", ""},
		{"dns", "maxQueries: 65536", "maxQueries: 65536: want 100 to 65535"},
		{"dns", "maxMemory: 4095Ki", `maxMemory: "4095Ki": want 4Mi to 1Gi`},
		{"dns", "maxMemory: 1025Mi", `maxMemory: "1025Mi": want 4Mi to 1Gi`},
		{"dns", "maxMemory: much", `maxMemory: "much" is not an amount of memory such as 64Mi`},
		{"dns", "pods: some", `pods: "some": want disabled, insecure or verified`},
		{"dns", "lameduck: -1s", `lameduck: "-1s" is not a duration such as 10s`},
		{"dns", "listen: ['192.0.2.1']", `listen[0]: "192.0.2.1" is not an IP address with a port`},
		{"dns", "http: '1'", `http: "1" is not an address with a port`},
		{"dns", "clusterDomain: a b", `clusterDomain: "a b": want a domain such as cluster.local`},
		{"dns", "clusterDomain: .", `clusterDomain: "." is the root: want a domain such as cluster.local`},
		{"dns", "reverseCIDRs: [10.0.0.0/8, '::ffff:10.0.0.0/104']",
			`reverseCIDRs[1]: "::ffff:10.0.0.0/104" is not a network such as 10.96.0.0/12`},
		{"dns", "autopathService: kube-system", `autopathService: "kube-system" is not the NAMESPACE/NAME of a Service`},
		{"nodecache", "interface: " + strings.Repeat("i", 15), ""},
		{"nodecache", "interface: " + strings.Repeat("i", 16), "is not the name of a network interface"},
		{"nodecache", "interface: a/b", "is not the name of a network interface"},
		{"shim", "listen: " + long, ""},
		{"shim", "listen: " + long + "x", "has 108 octets, a unix socket can have 107"},
		{"shim", "listen: run/shim.sock", "is not a unix socket: want an absolute path or unix:///PATH"},
		{"shim", "runtimeEndpoint: tcp://127.0.0.1:1", "is not a unix socket"},
		{"shim", "lookupTimeout: 30s", ""},
		{"shim", "lookupTimeout: 31s", `lookupTimeout: "31s": want 100ms to 30s`},
		{"shim", "lookupTimeout: 99ms", `lookupTimeout: "99ms": want 100ms to 30s`},
		{"shim", "node: {nodeIPs: [192.0.2.1, x]}", `node.nodeIPs[1]: "x" is not an IP address`},
		{"shim", "autopath: {nodeCache: localhost}", `autopath.nodeCache: "localhost" is not an IP address`},
		{"shim", "node: {clusterDNS: [x]}", `node.clusterDNS[0]: "x" is not an IP address`},
		{"shim", "node: {allowedOverrides: [Autopath]}", `node.allowedOverrides[0]: "Autopath": want Default, ClusterFirst`},
		{"agent", "sandboxDirectories: [/]", `sandboxDirectories[0]: "/" is not an absolute path below /`},
		{"webhook", "denyOn: info", `denyOn: "info": want error, warning or never`},
	} {
		check := map[string]func(string) error{
			"dns": checkText(&Kind[dns]{}), "nodecache": checkText(&Kind[nodeCache]{}), "shim": checkText(&Kind[shim]{}),
			"agent": checkText(&Kind[agent]{}), "webhook": checkText(&Kind[webhook]{}),
		}[tt.kind]
		if err := check(tt.text); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.text, err, tt.want)
		}
	}
}

// checkText returns a function that checks the fields of a file.
func checkText[C any](k *Kind[C]) func(fields string) error {
	return func(fields string) error {
		text := "apiVersion: " + v1alpha1.GroupVersion + "\nkind: " + k.Name() + "\n" + fields
		return k.FromText(File{"f", []byte(text)}).CheckFields()
	}
}

// TestCanonical: a value has one form, so that another spelling needs no restart.
func TestCanonical(t *testing.T) {
	path := newFile(t, v1alpha1.KindShim, "listen: unix:/a\nruntimeEndpoint: /b\nnode: {kubeletConfig: k, resolvConf: r}\n")
	c, err := (&Kind[shim]{}).FromFile(path).Load()
	dir := filepath.Dir(path)
	if err != nil || c.Listen != "unix:///a" || c.RuntimeEndpoint != "unix:///b" ||
		c.Node.KubeletConfig != dir+"/k" || *c.Node.ResolvConf != dir+"/r" {
		t.Errorf("%+v, %v", c, err)
	}
	path = newFile(t, v1alpha1.KindDNS, "listen: [':53', '[::ffff:192.0.2.1]:53']\nclusterDomain: A.Example.\n")
	d, err := dnsKind().FromFile(path).Load()
	if err != nil || !slices.Equal(d.Listen, []string{"[::]:53", "192.0.2.1:53"}) || d.ClusterDomain != "a.example" {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestSource_Copies: a configuration shares nothing that a later load changes.
func TestSource_Copies(t *testing.T) {
	path := newFile(t, v1alpha1.KindDNS, "")
	source := newDNSSource(t, "--config", path, "--listen", ":53")
	first := must.Get(source.Load())(t)
	first.Listen[0] = "changed"
	if second, err := source.Load(); err != nil || !reflect.DeepEqual(second.Listen, []string{"[::]:53"}) {
		t.Errorf("%q, %v", second.Listen, err)
	}
}

// TestReadFile_Size: a configuration file has at most MaxFile bytes.
func TestReadFile_Size(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.yaml")
	for size, want := range map[int]string{MaxFile: "",
		MaxFile + 1: path + ": larger than 4194304 bytes: a configuration file has a few kilobytes"} {
		must.Succeed(t, os.WriteFile(path, make([]byte, size), 0o600))
		if _, err := ReadFile(path); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%d: %v, want %q", size, err, want)
		}
	}
	if _, err := (&Kind[shim]{}).FromFile("/dev/zero").Load(); err == nil || !strings.HasPrefix(err.Error(), "/dev/zero: larger than") {
		t.Errorf("an endless file: %v", err)
	}
}

// TestFlags: a flag that is set overrides the file, an empty one too, unless the field has a default.
func TestFlags(t *testing.T) {
	path := newFile(t, v1alpha1.KindShim, "http: ':1'\nnode: {nodeName: a}\n")
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	source := (&Kind[shim]{}).FromFlags(set)
	must.Succeed(t, set.Parse([]string{"--config", path, "--http=", "--node-name=b"}))
	if c, err := source.Load(); err != nil || c.HTTP != "" || c.Node.NodeName != "b" {
		t.Errorf("%+v, %v", c, err)
	}
	if err := set.Parse([]string{"--listen="}); err == nil || !strings.Contains(err.Error(), "is empty: want a value") {
		t.Errorf("an empty --listen: %v", err)
	}
}

// FuzzCheckFields: a file is valid with its places if it is valid without, and no input panics.
func FuzzCheckFields(f *testing.F) {
	checks := map[string]func(path string) (plain, withPlaces error){
		v1alpha1.KindShim: checkBoth(&Kind[shim]{}), v1alpha1.KindAgent: checkBoth(&Kind[agent]{}),
		v1alpha1.KindDNS: checkBoth(&Kind[dns]{}), v1alpha1.KindNodeCache: checkBoth(&Kind[nodeCache]{}),
		v1alpha1.KindWebhook: checkBoth(&Kind[webhook]{}),
	}
	for _, seed := range []struct{ kind, fields string }{
		{v1alpha1.KindShim, "mode: Force\nlisten: unix:///a\nnode: {clusterDNS: [10.96.0.10], nodeIPs: ['::1']}\nlookupTimeout: 2s\n"},
		{v1alpha1.KindAgent, "refresh: All\nsandboxDirectories: [/a]\n"},
		{v1alpha1.KindDNS, "listen: ['[::]:53', ':53']\nstubDomains: [{zone: a.example, servers: [tls://192.0.2.1%a]}]\nttl: 5\n"},
		{v1alpha1.KindNodeCache, "listen: ['169.254.20.10:53']\ninterface: lo\nreverseCIDRs: [10.0.0.0/8]\n"},
		{v1alpha1.KindWebhook, "listen: ':8443'\ntls: {certFile: c}\nlameduck: 5s\n"},
	} {
		f.Add(seed.kind, seed.fields)
	}
	file := filepath.Join(f.TempDir(), "file.yaml")
	f.Fuzz(func(t *testing.T, kind, fields string) {
		check, ok := checks[kind]
		if !ok {
			return
		}
		writeFile(t, file, kind, fields)
		plain, withPlaces := check(file)
		if (plain == nil) != (withPlaces == nil) {
			t.Errorf("%v, with places: %v", plain, withPlaces)
		}
	})
}

func checkBoth[C any](k *Kind[C]) func(path string) (plain, withPlaces error) {
	return func(path string) (plain, withPlaces error) {
		f, _ := ReadFile(path) // the first check has its error
		return k.FromFile(path).CheckFields(), k.FromText(f).CheckFields()
	}
}
