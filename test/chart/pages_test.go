// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/certs"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/pages"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// kubeadmDNS are objects of a cluster of kubeadm that the documentation changes.
const kubeadmDNS = `apiVersion: v1
kind: Service
metadata: {namespace: kube-system, name: kube-dns}
spec:
  clusterIP: 10.96.0.10
  selector: {k8s-app: kube-dns}
  ports:
  - {name: dns, port: 53, protocol: UDP, targetPort: 53}
  - {name: dns-tcp, port: 53, protocol: TCP, targetPort: 53}
  - {name: metrics, port: 9153, protocol: TCP, targetPort: 9153}
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: kube-system, name: coredns}
spec:
  replicas: 2
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec: {containers: [{name: coredns, image: registry.example/coredns}]}
---
apiVersion: v1
kind: Node
metadata: {name: worker-1}
---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: default, name: default}
`

// newWorkplace returns a directory from which the commands of the documentation reach the cluster,
// and their environment.
func newWorkplace(c *cluster) (dir string, env []string) {
	c.Helper()
	dir = c.TempDir()
	repository := must.Get(filepath.Abs("../.."))(c)
	programs := filepath.Join(dir, "bin")
	must.Succeed(c, errors.Join(
		os.MkdirAll(filepath.Join(programs, "release"), 0o700),
		os.Mkdir(filepath.Join(dir, ".kube"), 0o700),
		os.Symlink(filepath.Join(repository, "deploy"), filepath.Join(dir, "deploy")),
		os.Symlink(process.Build(c.T), filepath.Join(programs, "dnsconfigurer")),
		os.Symlink(helmPath, filepath.Join(programs, "helm")),
		os.Symlink(c.kubectl.Program(), filepath.Join(programs, "kubectl")),
		os.Symlink(c.api.KubeconfigFile(), filepath.Join(dir, ".kube", "config")),
	))
	cert, _ := certs.NewAuthority(c.T).Write(c.T, dir, "dnsconfigurer-webhook.dnsconfigurer.svc")
	if err := os.Symlink(cert, filepath.Join(dir, "ca.crt")); err != nil { // any certificate will do
		c.Fatal(err)
	}
	c.helm("package", chartDir, "--destination", filepath.Join(programs, "release"))
	return dir, append(c.env, "HOME="+dir, "PATH="+programs+":"+os.Getenv("PATH"))
}

// withoutPods removes what waits for pods, which do not start without controllers: lines, and the
// flag of helm. Without them no namespace is removed, either.
func withoutPods(commands string) string {
	commands = regexp.MustCompile(`(?m)^kubectl .* (rollout status|logs) .*\n`).ReplaceAllString(commands, "")
	return strings.NewReplacer(" --wait", "", "kubectl delete ", "kubectl delete --wait=false ").Replace(commands)
}

// TestPages runs the commands of the documentation that need an API server, page by page.
func TestPages(t *testing.T) {
	c := newCluster(t)
	c.run(kubeadmDNS, "apply", "-f", "-")
	dir, env := newWorkplace(c)
	blocks := must.Get(pages.Read("../.."))(t)
	ran := 0
	for _, b := range blocks {
		if b.Note != "run by test/chart" {
			continue
		}
		ran++
		commands := strings.ReplaceAll(withoutPods(b.Text), " CHART ", " "+chartDirectory(t)+" ")
		begin := time.Now()
		err := runBlock(t, dir, env, commands)
		t.Logf("%s:%d took %v", b.Page, b.Line, time.Since(begin).Round(100*time.Millisecond))
		if err != nil {
			t.Errorf("%s:%d: %v", b.Page, b.Line, err)
		}
	}
	t.Logf("%d blocks of commands run", ran)
	if ran < 15 {
		t.Errorf("only %d blocks run", ran)
	}
}

// blockTime limits the commands of a block.
const blockTime = 10 * time.Minute

// runBlock runs the commands of a block.
func runBlock(t *testing.T, dir string, env []string, commands string) error {
	ctx, cancel := context.WithTimeout(t.Context(), blockTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-ec", commands)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, env, time.Minute
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if ok && exit.ExitCode() == 1 && (strings.Contains(commands, "# exit code 1") || strings.Contains(commands, "| grep ")) {
		err = nil // grep may find nothing
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s\n%s", err, commands, out)
	}
	return err
}

func chartDirectory(t *testing.T) string {
	t.Helper()
	return must.Get(filepath.Abs(chartDir))(t)
}
