// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
)

// module is ours; it contains the module that builds Kubernetes.
const module = "github.com/dnsconfigurer/dnsconfigurer"

// coreDNS is a cluster DNS server for tests of this package.
const coreDNS = "coredns"

// Install makes programs available to Start, Kubectl and CoreDNS in this test, and in processes
// that it starts, which need no network then. more are further programs of Kubernetes.
func Install(t testing.TB, more ...string) {
	t.Helper()
	installEtcd(t)
	for _, program := range append([]string{"kube-apiserver", "kubectl", coreDNS}, more...) {
		t.Setenv(variable(program), build(t, program))
	}
}

// variable returns the name of the environment variable with the path of a program.
func variable(program string) string {
	return "DNSCONFIGURER_TEST_" + strings.ToUpper(strings.ReplaceAll(program, "-", "_"))
}

// installEtcd returns the path of etcd.
func installEtcd(t testing.TB) string {
	t.Helper()
	debian.Install(t, "etcd", "etcd-server")
	path, err := exec.LookPath("etcd")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// CoreDNS returns the path of CoreDNS, built from the module of the benchmarks.
func CoreDNS(t testing.TB) string {
	t.Helper()
	return build(t, coreDNS)
}

// build returns the path of a program: one of Kubernetes, such as kube-apiserver, or CoreDNS.
func build(t testing.TB, program string) string {
	t.Helper()
	if path := os.Getenv(variable(program)); path != "" {
		return path
	}
	start := time.Now()
	root := run(t, ".", "go", "list", "-m", "-f", "{{.Dir}}", module)
	var path string
	if program == coreDNS {
		path = cached(t, filepath.Join(root, "test", "bench"), "./cmd/coredns")
	} else {
		path = buildIn(t, filepath.Join(root, "test", "cluster"), program)
	}
	t.Logf("building %s took %v", program, time.Since(start).Round(time.Second))
	return path
}

// buildIn returns the path of a program in Go's build cache. Its version is that of the module:
// otherwise it is v0.0.0, which helm takes for an API server that is too old.
func buildIn(t testing.TB, dir, program string) string {
	t.Helper()
	version := run(t, dir, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	return cached(t, dir, "-ldflags=-X=k8s.io/component-base/version.gitVersion="+version, "k8s.io/kubernetes/cmd/"+program)
}

// cached builds a program with "go run", because "go tool" has no linker flags, and returns its
// path. "go run" prints the path of a temporary file when it has linked the program, and the
// path in the cache from then on.
func cached(t testing.TB, dir string, args ...string) string {
	t.Helper()
	args = append([]string{"go", "run", "-exec=echo"}, args...)
	path := run(t, dir, args...)
	if _, err := os.Stat(path); err != nil {
		path = run(t, dir, args...)
	}
	return path
}

// run returns the one line that a command writes.
func run(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("in %s: %s: %v\n%s", dir, cmd, err, &problems)
	}
	return strings.TrimSpace(string(out))
}
