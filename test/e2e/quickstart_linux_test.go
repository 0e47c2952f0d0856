// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
	"github.com/dnsconfigurer/dnsconfigurer/test/pages"
)

// quickStart returns the commands of docs/quick-start.md, by the titles of its sections.
func quickStart(t *testing.T) map[string]string {
	t.Helper()
	blocks := must.Get(pages.Read("../.."))(t)
	commands := map[string]string{}
	for _, b := range blocks {
		if b.Note == "run by test/e2e" {
			commands[b.Section] += b.Text
		}
	}
	return commands
}

// testQuickStart types the commands of the quick start, with the image of the tests instead of
// one from a registry, and without a terminal. The existing DNS is a second release of the chart.
func (c *cluster) testQuickStart(t *testing.T) {
	c.helm(t, "", "install", "existing", "../../deploy/chart", "--wait", "--timeout", patience.String(),
		"--set", "dns.service.create=true,image.tag="+c.imageTag(t))
	dir := t.TempDir()
	release := filepath.Join(dir, "bin/release")
	must.Succeed(t, os.MkdirAll(release, 0o755))
	c.helm(t, "", "package", "../../deploy/chart", "--app-version", c.imageTag(t), "--destination", release)
	programs := filepath.Join(dir, "bin")
	must.Succeed(t, errors.Join(
		os.Symlink(c.Dnsconfigurer, filepath.Join(programs, "dnsconfigurer")),
		os.Symlink(c.Helm, filepath.Join(programs, "helm")),
		os.Symlink(c.kubectl.Program(), filepath.Join(programs, "kubectl")),
	))
	// kube-proxy may not have set up a Service yet, and a busy machine may take minutes for a pod.
	const untilServed = "until busybox nslookup kubernetes.default.svc.cluster.local $DNS; do sleep 0.2; done\n"
	here := strings.NewReplacer(" -it ", " -i --pod-running-timeout "+patience.String()+" ",
		"kubectl run ", untilServed+"kubectl run ", "--wait ", "--wait --timeout "+patience.String()+" ",
		"-- nslookup", "--command -- /bin/busybox nslookup",
		"--image busybox:1.37", "--image-pull-policy Never --image "+nodetools.LibrariesImage)
	commands := quickStart(t)
	for _, step := range []struct{ section, want string }{
		{"1. See what your pods get", "10.96.0.10\n"},
		{"3. Install the cluster DNS beside the existing one", "STATUS: deployed"},
		{"4. Look up a name through it", "Address: 10.96.0.1\n"},
		{"Undo", `namespace "dnsconfigurer" deleted`},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-ec", here.Replace(commands[step.section]))
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "KUBECONFIG="+adminIdentity,
			"HELM_CONFIG_HOME="+dir, "HELM_CACHE_HOME="+dir, "HELM_DATA_HOME="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), step.want) {
			t.Fatalf("%s: %v, want %q in the output of\n%s\n%s", step.section, err, step.want, cmd, out)
		}
		t.Logf("%s:\n%s", step.section, out)
	}
	c.create(t, newPod("after-quick-start", corev1.PodSpec{}))
	c.checkLookups(t, "after-quick-start")
}
