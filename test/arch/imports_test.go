// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/dnsconfigurer/dnsconfigurer"

// values are the packages that compute and touch nothing: no files, no clock, no
// network, no locks, no log.
var values = []string{"bytes", "errors", "fmt", "io", "net/netip", "slices", "strconv", "strings", "unicode", "unicode/utf8"}

// imports says what each package may import besides its own module's entries:
// "std" is all of the standard library, a trailing "/..." a tree. What is not
// listed is forbidden, and so is a package that has no row.
var imports = map[string][]string{
	"pkg/fqdn":           values,
	"pkg/resolvconf":     append(values, "pkg/fqdn"),
	"internal/libc":      append(values, "context", "sync", "time", "pkg/fqdn", "pkg/resolvconf", "github.com/miekg/dns"), // waits, but sends nothing itself
	"pkg/policy":         append(values, "pkg/fqdn", "pkg/resolvconf"),
	"internal/admission": append(values, "pkg/fqdn", "pkg/policy", "pkg/resolvconf"),
	"internal/admission/webhook": {"std", "internal/admission", "internal/document", "internal/kube", "pkg/policy", "k8s.io/api/...", "k8s.io/apimachinery/...",
		"github.com/prometheus/client_golang/prometheus"},
	"internal/admission/webhook/selfsigned": {"std", "k8s.io/api/...", "k8s.io/apimachinery/...", "k8s.io/client-go/rest"},
	"internal/kube":                         {"std", "pkg/policy", "pkg/fqdn", "internal/document", "k8s.io/api/...", "k8s.io/apimachinery/...", "sigs.k8s.io/json"},
	"internal/document":                     append(values, "reflect", "regexp", "encoding/json", "sigs.k8s.io/json", "sigs.k8s.io/yaml", "go.yaml.in/yaml/v3"),
	"pkg/hostresolv":                        {"std", "pkg/resolvconf", "github.com/fsnotify/fsnotify"},
	"internal/kube/watch": {"std", "internal/kube", "pkg/policy", "k8s.io/api/...", "k8s.io/apimachinery/...", "k8s.io/client-go/...",
		"github.com/fsnotify/fsnotify", "golang.org/x/sync/singleflight"},
	"internal/kube/client": {"std", "k8s.io/apimachinery/...", "k8s.io/client-go/rest", "k8s.io/client-go/tools/clientcmd"},
	"internal/kube/zonesync": {"std", "internal/kube", "pkg/fqdn", "pkg/dnsserver/zone", "pkg/dnsserver/snapshot", "k8s.io/api/...", "k8s.io/apimachinery/...",
		"k8s.io/client-go/rest", "k8s.io/client-go/tools/cache", "k8s.io/utils/clock", "github.com/fsnotify/fsnotify",
		"github.com/prometheus/client_golang/prometheus"},
	"pkg/cri": {"std", "pkg/policy", "pkg/fqdn", "pkg/resolvconf", "golang.org/x/sys/unix", "google.golang.org/grpc", "google.golang.org/grpc/...",
		"google.golang.org/protobuf/encoding/protowire", "github.com/prometheus/client_golang/prometheus"},

	"pkg/dnsserver/zone":     {"std", "pkg/fqdn"},
	"pkg/dnsserver/cache":    {"std", "github.com/miekg/dns"},
	"pkg/dnsserver/snapshot": {"std", "pkg/fqdn", "pkg/dnsserver/zone"},
	"pkg/dnsserver/autopath": {"std", "pkg/fqdn"},
	"pkg/dnsserver/upstream": {"std", "pkg/fqdn", "github.com/miekg/dns", "golang.org/x/sync/singleflight", "github.com/prometheus/client_golang/prometheus"},
	"pkg/dnsserver": {"std", "pkg/fqdn", "pkg/dnsserver/autopath", "pkg/dnsserver/zone", "pkg/dnsserver/cache", "github.com/miekg/dns",
		"golang.org/x/net/ipv4", "golang.org/x/net/ipv6", "golang.org/x/sys/unix", "github.com/prometheus/client_golang/prometheus"},

	"internal/systemd":  {"std"},
	"internal/nodeaddr": {"std", "golang.org/x/sys/unix", "github.com/vishvananda/netlink"},
	"api/v1alpha1":      {"std", "internal/document"},
	"internal/multierr": {"errors", "fmt"},
	"internal/config": {"std", "api/v1alpha1", "internal/kube", "internal/multierr", "pkg/cri", "pkg/hostresolv", "pkg/policy", "pkg/resolvconf",
		"github.com/spf13/pflag", "k8s.io/utils/net"},
	"internal/daemon":  {"std", "golang.org/x/sync/errgroup"},
	"internal/forward": {"std", "pkg/dnsserver", "pkg/dnsserver/upstream", "pkg/fqdn", "pkg/hostresolv"},
	"cmd/dnsconfigurer": {"std", "api/...", "pkg/...", "internal/...", "github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/miekg/dns", "k8s.io/utils/net",
		"k8s.io/api/...", "k8s.io/apimachinery/...", "k8s.io/client-go/...", "k8s.io/klog/v2", "golang.org/x/sync/errgroup", "github.com/prometheus/client_golang/..."},
	"deploy":         {"std"},
	"test/arch":      {"std"},
	"test/apiserver": {"std", "test/process", "k8s.io/client-go/rest", "k8s.io/client-go/tools/clientcmd"},
	"test/certs":     {"std"},
	"test/kubeapi":   {"std", "k8s.io/api/...", "k8s.io/apimachinery/..."},
	"test/libc":      {"std"},
	"test/node":      {"std"},
	"test/process":   {"std"},
	"test/soak":      {"std"},
	"test/summary":   {"std"},
	"test/vectors":   {"std", "internal/admission", "pkg/policy", "pkg/resolvconf", "sigs.k8s.io/yaml"},
}

// pkg is what `go list -json` says of a package.
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

func listPackages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Doc,Imports,GoFiles,TestGoFiles,XTestGoFiles", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
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
	seen := map[string]bool{}
	for _, p := range listPackages(t) {
		allowed, listed := imports[p.name()]
		if !listed {
			t.Errorf("%s has no row in the table of imports", p.name())
		}
		seen[p.name()] = true
		for _, i := range p.Imports {
			i = strings.TrimPrefix(i, module+"/")
			if !slices.ContainsFunc(allowed, func(a string) bool { return permits(a, i) }) {
				t.Errorf("%s imports %s, which its row does not allow", p.name(), i)
			}
		}
	}
	for row := range imports {
		if !seen[row] {
			t.Errorf("the table has a row for %s, which does not exist", row)
		}
	}
}

// heavy are packages that cost every server memory, also through others that import
// them.
var heavy = map[string]string{
	"k8s.io/client-go/kubernetes":        "links the types of all API groups; internal/kube/client makes clients of few",
	"k8s.io/client-go/kubernetes/scheme": "registers the types of all API groups",
	"k8s.io/client-go/tools/record":      "links OpenAPI; events.go sends events",
}

func TestHeavyPackages(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "./cmd/dnsconfigurer")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for p := range strings.Lines(string(out)) {
		if why, ok := heavy[strings.TrimSpace(p)]; ok {
			t.Errorf("the command links %s, which %s", strings.TrimSpace(p), why)
		}
	}
}

func permits(allowed, imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	switch tree, isTree := strings.CutSuffix(allowed, "/..."); {
	case allowed == "std":
		ours := first == "pkg" || first == "internal" || first == "api" || first == "cmd" || first == "test"
		return !strings.Contains(first, ".") && !ours
	case isTree:
		return strings.HasPrefix(imported, tree+"/")
	default:
		return allowed == imported
	}
}

func TestPackageDocs(t *testing.T) {
	for _, p := range listPackages(t) {
		if p.Doc == "" {
			t.Errorf("%s does not say why it exists", p.name())
		}
		inDoc := slices.Contains(p.GoFiles, "doc.go") || slices.Contains(p.GoFiles, "main.go")
		if !inDoc {
			t.Errorf("%s has no doc.go", p.name())
		}
		for _, banned := range []string{"util", "utils", "common", "helpers", "misc", "shared", "base", "types"} {
			if path.Base(p.name()) == banned {
				t.Errorf("%s: %q names nothing", p.name(), banned)
			}
		}
	}
}
