// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// kubernetes is the module that builds Kubernetes.
const kubernetes = "test/cluster"

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
	return must.Get(exec.LookPath("etcd"))(t)
}

// CoreDNS returns the path of CoreDNS, built from the module of the benchmarks.
func CoreDNS(t testing.TB) string {
	t.Helper()
	return build(t, coreDNS)
}

// build returns the path of a program: one of Kubernetes, such as kube-apiserver, or CoreDNS. The version of the first is that
// of the module: otherwise it is v0.0.0, which helm takes for an API server that is too old.
func build(t testing.TB, program string) string {
	t.Helper()
	if path := os.Getenv(variable(program)); path != "" {
		return path
	}
	if program == coreDNS {
		return process.BuildIn(t, "test/bench", "./cmd/coredns")
	}
	version := process.Output(t, kubernetes, nil, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	return process.BuildIn(t, kubernetes, "-ldflags=-X=k8s.io/component-base/version.gitVersion="+version, "k8s.io/kubernetes/cmd/"+program)
}
