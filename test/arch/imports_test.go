// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/dnsconfigurer/dnsconfigurer"

// values are the packages for pure computation: no files, no clock, no network, no
// locks, no log.
var values = []string{"bytes", "errors", "fmt", "io", "maps", "net/netip", "slices", "strconv", "strings", "unicode", "unicode/utf8"}

// imports holds the packages that each package may import: "std" is the standard
// library, "values" the packages above, a trailing "/..." a tree. Every package has a
// row, and every entry of a row is in use.
var imports = map[string][]string{
	"pkg/fqdn":       {"values"},
	"pkg/resolvconf": {"values"},
	// waits, but sends nothing itself
	"internal/libc":    {"values", "cmp", "context", "sync", "time", "pkg/fqdn", "pkg/resolvconf", "github.com/miekg/dns"},
	"internal/excerpt": {"values"},
	"pkg/policy":       {"values", "internal/excerpt", "pkg/fqdn", "pkg/resolvconf"},
	"internal/admission": {"values", "cmp", "context", "embed", "iter", "regexp", "text/template",
		"internal/excerpt", "pkg/fqdn", "pkg/policy", "pkg/resolvconf"},
	"internal/admission/webhook": {"std", "api/v1alpha1", "internal/atomicfile", "internal/nodefacts", "internal/usage",
		"internal/admission", "internal/config",
		"internal/daemon", "internal/document", "internal/excerpt", "internal/kube", "pkg/policy",
		"k8s.io/api/...", "k8s.io/apimachinery/...",
		"github.com/prometheus/client_golang/prometheus", "github.com/prometheus/client_golang/prometheus/promauto",
		"golang.org/x/sync/semaphore"},
	"internal/kube": {"std", "internal/document", "internal/excerpt", "internal/usage", "pkg/fqdn", "pkg/policy",
		"github.com/fsnotify/fsnotify", "github.com/spf13/pflag",
		"k8s.io/api/...", "k8s.io/apimachinery/...", "k8s.io/utils/ptr",
		"sigs.k8s.io/json"},
	"internal/document": {"values", "reflect", "regexp", "encoding/json", "github.com/go-json-experiment/json",
		"github.com/go-json-experiment/json/...",
		"sigs.k8s.io/json", "sigs.k8s.io/yaml", "go.yaml.in/yaml/v3"},
	"pkg/hostresolv": {"std", "internal/excerpt", "pkg/resolvconf"},
	"internal/cluster": {"std", "internal/atomicfile", "internal/kube",
		"pkg/fqdn", "pkg/policy", "pkg/dnsserver/zone", "k8s.io/api/...", "k8s.io/apimachinery/...",
		"k8s.io/client-go/...", "k8s.io/utils/clock", "k8s.io/utils/ptr",
		"github.com/prometheus/client_golang/prometheus", "golang.org/x/sync/singleflight"},
	"pkg/cri": {"std", "internal/excerpt", "pkg/policy", "pkg/resolvconf",
		"golang.org/x/sys/unix", "google.golang.org/grpc", "google.golang.org/grpc/...",
		"google.golang.org/protobuf/encoding/protowire", "github.com/prometheus/client_golang/prometheus"},

	"pkg/dnsserver/zone":     {"std", "pkg/fqdn"},
	"pkg/dnsserver/cache":    {"std", "github.com/miekg/dns"},
	"pkg/dnsserver/autopath": {"std", "pkg/fqdn"},
	"pkg/dnsserver/upstream": {"std", "pkg/fqdn", "github.com/miekg/dns", "golang.org/x/sys/unix",
		"golang.org/x/sync/semaphore", "github.com/prometheus/client_golang/prometheus"},
	"pkg/dnsserver": {"std", "pkg/fqdn", "pkg/dnsserver/autopath", "pkg/dnsserver/zone", "pkg/dnsserver/cache",
		"pkg/dnsserver/upstream", "github.com/miekg/dns", "golang.org/x/sys/unix",
		"github.com/prometheus/client_golang/prometheus", "github.com/prometheus/client_golang/prometheus/promauto"},

	"api/v1alpha1": {"std", "internal/document", "internal/excerpt"},
	"internal/install": {"std", "internal/shim", "api/v1alpha1", "internal/atomicfile",
		"internal/config", "internal/document", "internal/kube", "internal/excerpt", "internal/node", "internal/usage", "pkg/cri",
		"github.com/spf13/pflag"},
	"internal/atomicfile": {"errors", "fmt", "io", "io/fs", "os", "path/filepath", "strings"},
	"internal/usage":      {"api/v1alpha1", "values", "internal/excerpt", "github.com/spf13/cobra", "github.com/spf13/pflag"},
	"internal/config": {"std", "api/v1alpha1", "internal/daemon", "internal/document", "internal/excerpt",
		"internal/usage", "pkg/fqdn", "github.com/spf13/pflag", "k8s.io/apimachinery/pkg/api/resource", "k8s.io/utils/net"},
	"internal/nodefacts": {"std", "api/v1alpha1", "internal/admission", "internal/config", "internal/document",
		"internal/kube", "internal/usage", "pkg/hostresolv", "pkg/policy", "pkg/resolvconf", "github.com/spf13/pflag"},
	"internal/daemon": {"std", "internal/excerpt",
		"github.com/prometheus/client_golang/prometheus", "github.com/prometheus/client_golang/prometheus/collectors",
		"github.com/prometheus/client_golang/prometheus/promhttp", "golang.org/x/sync/errgroup", "k8s.io/klog/v2"},
	"internal/lookup": {"std", "internal/nodefacts", "api/v1alpha1", "internal/config", "internal/daemon", "internal/dnsnode",
		"internal/kube", "internal/cluster", "internal/libc", "internal/cli",
		"internal/excerpt", "internal/usage", "pkg/dnsserver", "pkg/dnsserver/autopath", "pkg/dnsserver/cache",
		"pkg/dnsserver/upstream", "pkg/dnsserver/zone", "pkg/fqdn", "pkg/hostresolv", "pkg/policy", "pkg/resolvconf",
		"github.com/miekg/dns", "github.com/spf13/pflag", "k8s.io/api/core/v1", "k8s.io/api/discovery/v1", "internal/doctor",
		"internal/doctor/gather", "k8s.io/apimachinery/pkg/runtime", "k8s.io/apimachinery/pkg/runtime/schema"},
	"internal/corefile": {"values", "cmp", "encoding/json", "math/rand/v2", "net", "regexp", "text/template/parse", "time", "api/v1alpha1",
		"internal/excerpt", "pkg/dnsserver", "pkg/dnsserver/zone", "pkg/fqdn",
		"github.com/coredns/caddy/caddyfile", "github.com/miekg/dns"},
	"internal/doctor": {"values", "cmp", "context", "embed", "encoding/json", "iter", "path", "time", "api/v1alpha1",
		"internal/admission", "internal/corefile", "internal/excerpt", "internal/kube", "pkg/dnsserver", "pkg/fqdn",
		"pkg/policy", "pkg/resolvconf", "github.com/miekg/dns", "k8s.io/api/...", "k8s.io/apimachinery/...",
		"k8s.io/utils/ptr"},
	"internal/doctor/gather": {"std", "api/v1alpha1", "internal/atomicfile", "internal/doctor",
		"internal/excerpt", "internal/kube", "internal/cluster", "internal/usage", "pkg/fqdn", "pkg/policy", "github.com/miekg/dns",
		"golang.org/x/sync/errgroup",
		"k8s.io/api/...", "k8s.io/apimachinery/...", "k8s.io/client-go/rest",
		"k8s.io/client-go/transport/spdy", "k8s.io/streaming/pkg/httpstream", "github.com/spf13/pflag"},
	"internal/conformance": {"std", "api/v1alpha1", "github.com/miekg/dns", "golang.org/x/sync/errgroup",
		"k8s.io/api/core/v1", "k8s.io/api/discovery/v1", "k8s.io/utils/ptr"},

	// The servers: what a command calls with its configuration.
	"internal/shim": {"std", "internal/document", "internal/nodefacts", "pkg/policy", "api/v1alpha1", "internal/atomicfile",
		"internal/config", "internal/daemon", "internal/node", "internal/excerpt",
		"internal/podfile", "pkg/cri", "pkg/hostresolv", "k8s.io/api/...",
		"github.com/prometheus/client_golang/prometheus"},
	"internal/node": {"std", "internal/nodefacts", "api/v1alpha1", "internal/cluster", "internal/config", "internal/daemon",
		"internal/excerpt", "internal/podfile", "pkg/cri", "pkg/hostresolv", "pkg/policy", "pkg/resolvconf",
		"golang.org/x/net/netutil", "github.com/prometheus/client_golang/prometheus",
		"github.com/prometheus/client_golang/prometheus/promauto",
		"k8s.io/api/...", "k8s.io/apimachinery/...", "k8s.io/client-go/rest"},
	"internal/nri": {"std", "internal/daemon", "internal/podfile", "internal/usage",
		"github.com/containerd/nri/pkg/api", "github.com/containerd/nri/pkg/stub",
		"github.com/prometheus/client_golang/prometheus"},
	"internal/dnsnode": {"std", "internal/atomicfile", "internal/usage", "pkg/dnsserver/autopath",
		"k8s.io/apimachinery/pkg/api/resource",
		"api/v1alpha1", "internal/config", "internal/daemon", "internal/cluster",
		"internal/excerpt", "internal/nodenet",
		"pkg/dnsserver", "pkg/dnsserver/cache",
		"pkg/dnsserver/upstream", "pkg/dnsserver/zone", "pkg/fqdn", "pkg/hostresolv", "github.com/miekg/dns", "k8s.io/api/...",
		"github.com/prometheus/client_golang/prometheus", "github.com/prometheus/client_golang/prometheus/promauto"},
	"cmd/dnsconfigurer": {"std", "api/...", "internal/...", "github.com/spf13/cobra",
		"github.com/spf13/pflag", "k8s.io/klog/v2"},
	"deploy":          nil,
	"test/arch":       nil,
	"test/apiserver":  {"std", "test/debian", "test/process", "k8s.io/client-go/rest", "k8s.io/client-go/tools/clientcmd"},
	"test/certs":      {"std"},
	"test/commits":    {"std"},
	"test/mutants":    {"std"},
	"test/walk":       {"std", "github.com/miekg/dns"},
	"test/debian":     {"std"},
	"test/dnsfaults":  {"std", "sigs.k8s.io/yaml"},
	"test/dnstest":    {"std", "github.com/miekg/dns"},
	"test/e2e":        nil,
	"test/hostile":    nil,
	"test/kubeapi":    {"std", "k8s.io/api/...", "k8s.io/apimachinery/..."},
	"test/libc":       nil,
	"test/neighbours": nil,
	"test/netns":      {"std", "golang.org/x/sys/unix", "test/poll"},
	"test/logbuffer":  {"std"},
	"test/poll":       {"std"},
	"test/node":       nil,
	"test/nodetools":  {"std", "test/debian"},
	"test/pages":      {"std"},
	"test/process":    {"std"},
	"test/summary":    {"std"},
	"test/systemd":    nil,
	"test/vectors":    {"std", "internal/admission", "pkg/policy", "pkg/resolvconf", "sigs.k8s.io/yaml"},
	"internal/nodenet": {"std", "golang.org/x/sys/unix", "github.com/vishvananda/netlink",
		"github.com/vishvananda/netlink/nl"},
	"internal/podfile": {"std", "golang.org/x/sys/unix", "internal/excerpt"},
	"internal/cli": {"std", "internal/admission/webhook", "internal/dnsnode", "internal/node", "internal/nodefacts",
		"internal/admission", "internal/doctor", "internal/kube", "internal/cluster",
		"internal/excerpt", "internal/usage", "pkg/policy", "github.com/spf13/pflag",
		"internal/config", "internal/corefile", "api/v1alpha1", "internal/atomicfile", "internal/document",
		"internal/shim", "pkg/resolvconf", "github.com/miekg/dns",
		"k8s.io/apimachinery/pkg/apis/meta/v1"},
}

// pkg is a package in the output of `go list -json`.
type pkg struct {
	ImportPath   string
	Dir          string
	Doc          string
	Imports      []string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
}

func (p pkg) name() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// goList runs `go list` for Linux, so that the table holds on every platform.
func goList(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "GOOS=linux")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return string(out)
}

func listPackages(t *testing.T) []pkg {
	t.Helper()
	var list []pkg
	out := goList(t, "-json=ImportPath,Dir,Doc,Imports,GoFiles,TestGoFiles,XTestGoFiles", "./...")
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

func TestImports(t *testing.T) {
	rows := maps.Clone(imports)
	for _, p := range listPackages(t) {
		allowed, listed := rows[p.name()]
		if !listed {
			t.Errorf("%s has no row in the table of imports", p.name())
		}
		delete(rows, p.name())
		for _, problem := range compareImports(allowed, p.Imports) {
			t.Errorf("%s: %s", p.name(), problem)
		}
	}
	for row := range rows {
		t.Errorf("the table of imports has a row for %s, which does not exist", row)
	}
}

// compareImports returns the imports without an entry, and the entries without an
// import.
func compareImports(allowed, imported []string) (problems []string) {
	used := map[string]bool{}
	for _, i := range imported {
		i = strings.TrimPrefix(i, module+"/")
		n := slices.IndexFunc(allowed, func(a string) bool { return permits(a, i) })
		if n < 0 {
			problems = append(problems, "imports "+i+", which its row does not allow")
			continue
		}
		used[allowed[n]] = true
	}
	for _, a := range allowed {
		if !used[a] {
			problems = append(problems, "does not use the entry "+a+" of its row")
		}
	}
	return problems
}

func TestCompareImports(t *testing.T) {
	tests := []struct {
		allowed, imported []string
		want              int
	}{
		{[]string{"std", "pkg/fqdn"}, []string{"os", module + "/pkg/fqdn"}, 0},
		{[]string{"std"}, []string{"os", module + "/pkg/fqdn"}, 1},
		{[]string{"std", "pkg/fqdn"}, []string{"os"}, 1},
		{[]string{"std"}, nil, 1},
		{[]string{"values"}, []string{"strings"}, 0},
		{[]string{"values"}, []string{"os"}, 2},
		{[]string{"k8s.io/api/..."}, []string{"k8s.io/api/core/v1"}, 0},
		{[]string{"k8s.io/api/..."}, []string{"k8s.io/apimachinery/pkg/types"}, 2},
		{nil, nil, 0},
	}
	for _, tt := range tests {
		if got := compareImports(tt.allowed, tt.imported); len(got) != tt.want {
			t.Errorf("row %q, imports %q: %q, want %d problems", tt.allowed, tt.imported, got, tt.want)
		}
	}
}

// heavy are packages that cost every server memory, also when they are imported
// indirectly.
var heavy = map[string]string{
	"k8s.io/client-go/kubernetes":        "links the types of all API groups: use internal/cluster",
	"k8s.io/client-go/kubernetes/scheme": "registers the types of all API groups",
	"k8s.io/client-go/tools/record":      "links OpenAPI: send events without it",
}

func TestHeavyPackages(t *testing.T) {
	for p := range strings.Lines(goList(t, "-deps", "./cmd/dnsconfigurer")) {
		if why, ok := heavy[strings.TrimSpace(p)]; ok {
			t.Errorf("the command links %s, which %s", strings.TrimSpace(p), why)
		}
	}
}

func permits(allowed, imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	switch tree, isTree := strings.CutSuffix(allowed, "/..."); {
	case allowed == "std":
		inModule := slices.Contains([]string{"pkg", "internal", "api", "cmd", "test"}, first)
		return !strings.Contains(first, ".") && !inModule
	case allowed == "values":
		return slices.Contains(values, imported)
	case isTree:
		return strings.HasPrefix(imported, tree+"/")
	default:
		return allowed == imported
	}
}

func TestPackageDocs(t *testing.T) {
	for _, p := range listPackages(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.name())
		}
		if !slices.Contains(p.GoFiles, "doc.go") && !slices.Contains(p.GoFiles, "main.go") {
			t.Errorf("%s has no doc.go", p.name())
		}
		for _, banned := range []string{"util", "utils", "common", "helpers", "misc", "shared", "base", "types"} {
			if path.Base(p.name()) == banned {
				t.Errorf("%s: %q is not a name of one thing", p.name(), banned)
			}
		}
	}
}
