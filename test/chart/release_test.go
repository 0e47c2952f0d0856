// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// longPod is a pod that a node would never start: its FQDN is too long.
const longPod = `apiVersion: v1
kind: Pod
metadata: {name: checkout-payments-eu-central, namespace: release}
spec:
  setHostnameAsFQDN: true
  subdomain: reconciliation
  containers: [{name: c, image: registry.example/c}]
`

// testRelease goes from the files of a release to a protected cluster and back. It uses helm and kubectl, and nothing else
// of this repository but examples/ci/doctor.yaml.
func testRelease(c *cluster) {
	out, dir := c.TempDir(), c.TempDir()
	build := exec.CommandContext(c.Context(), "go", "-C", "../../release", "run", ".", "-out", out,
		"-platforms", "linux/"+runtime.GOARCH, "all")
	if text, err := build.CombinedOutput(); err != nil {
		c.Fatalf("%s: %v\n%s", build, err, text)
	}
	job, jobErr := os.ReadFile("../../examples/ci/doctor.yaml")
	account, accountErr := c.api.Kubeconfig(c.api.Address(), "system:serviceaccount:kube-system:dnsconfigurer-doctor")
	programs := filepath.Join(dir, "bin")
	must.Succeed(c, errors.Join(jobErr, accountErr, os.Mkdir(programs, 0o755),
		os.Symlink(helmPath, filepath.Join(programs, "helm")),
		os.Symlink(c.kubectl.Program(), filepath.Join(programs, "kubectl")),
		os.WriteFile(filepath.Join(dir, "pod.yaml"), []byte(longPod), 0o644),
		os.WriteFile(filepath.Join(dir, "doctor.yaml"), job, 0o644),
		os.WriteFile(filepath.Join(dir, "account"), []byte(account), 0o600),
	))
	c.run("", "create", "namespace", c.namespace)
	c.run("", "create", "serviceaccount", "default", "--namespace", c.namespace)
	before := c.list()
	for _, tt := range []struct {
		commands, want string
		fails          bool
	}{
		{`cd $RELEASE && sha256sum --check checksums.txt`, ".tar.gz: OK\n", false},
		{`tar -xzf $RELEASE/*.tar.gz --strip-components=1 -C bin && ln -s dnsconfigurer bin/kubectl-dnsconfig
			kubectl dnsconfig render --help`, "\n  kubectl dnsconfig render (FILE|DIR|-)... [flags]\n", false},
		{`kubectl dnsconfig validate pod.yaml`, "or drop setHostnameAsFQDN", true},
		{`kubectl create --dry-run=server -f pod.yaml`, "created", false}, // nothing protects the cluster yet
		{`helm install dnsconfigurer $RELEASE/*.tgz --set dns.enabled=false,policies.enabled=true`, "STATUS: deployed", false},
		{`timeout 180 sh -c 'until ! kubectl create --dry-run=server -f pod.yaml; do sleep 0.1; done' 2>&1`, "64 is the limit", false},
		{`sed -i /setHostnameAsFQDN/d pod.yaml && kubectl dnsconfig validate pod.yaml`, " 0 errors, ", false},
		{`kubectl create --dry-run=server -f pod.yaml`, "created", false},
		{`kubectl apply -f doctor.yaml && kubectl dnsconfig doctor`, "dns-service-missing", true},
		{`KUBECONFIG=account kubectl dnsconfig doctor | tee report; ! grep forbidden report`, "dns-service-missing", false},
		{`helm uninstall dnsconfigurer && kubectl delete -f doctor.yaml`, "uninstalled", false},
	} {
		cmd := exec.CommandContext(c.Context(), "sh", "-ec", tt.commands)
		cmd.Dir = dir
		cmd.Env = append(c.env, "PATH="+programs+":"+os.Getenv("PATH"), "RELEASE="+out, "HELM_NAMESPACE="+c.namespace)
		text, err := cmd.CombinedOutput()
		if (err != nil) != tt.fails || !strings.Contains(string(text), tt.want) {
			c.Errorf("%s: %v, want %q in\n%s", tt.commands, err, tt.want, text)
		}
	}
	if got := added(before, c.list()); !slices.Equal(got, nil) {
		c.Errorf("left after the uninstallation: %q", got)
	}
}
