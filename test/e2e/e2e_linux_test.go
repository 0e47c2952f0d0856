// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// testCluster installs dnsconfigurer on a cluster and runs all tests there.
func testCluster(t *testing.T, p programs) {
	begin := time.Now()
	c := startCluster(t, p)
	since(t, "start of the cluster", begin)
	c.run(t, "", "create", "namespace", namespace)
	c.install(t, c.imageTag(t))
	c.wait(t, "create", "serviceaccount/default")
	since(t, "start and installation", begin)
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"service", c.testService},
		{"policies", c.testPolicies},
		{"FQDN too long", c.testTooLong},
		{"workloads", c.testWorkloads},
	} {
		t.Run(test.name, test.run)
	}
	c.startWatchers(t)
	t.Run("upgrade", c.testUpgrade)
	t.Run("outage of the control plane", c.testOutage)
}

// values are the settings of the chart. This kernel may have no interfaces of type dummy.
const values = `
image: {pullPolicy: Never}
dns:
  service: {create: true, clusterIPs: [` + dnsIP + `, "` + dnsIP6 + `"]}
nodeCache: {enabled: true, interface: lo}
policies: {enabled: true}
autopath: {enabled: true}
`

// render returns the objects of the chart. helm would ask the API server for its version,
// which a program built from a Go module does not have.
func (c *cluster) render(t *testing.T, imageTag string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.Helm, "template", "dnsconfigurer", "../../deploy/chart", "--namespace", "kube-system",
		"--kube-version", "1.36.0", "--values", "-", "--set", "image.tag="+imageTag)
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+c.Dir, "HELM_CACHE_HOME="+c.Dir, "HELM_DATA_HOME="+c.Dir)
	var problems strings.Builder
	cmd.Stdin, cmd.Stderr = strings.NewReader(values), &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, &problems)
	}
	return string(out)
}

// install installs the chart, or upgrades it, and returns when only pods with the image run.
func (c *cluster) install(t *testing.T, imageTag string) {
	t.Helper()
	c.apply(t, c.render(t, imageTag))
	for _, object := range []string{"deployment/dnsconfigurer-dns", "daemonset/dnsconfigurer-node-cache"} {
		args := []string{"rollout", "status", object, "--namespace", "kube-system", "--timeout", patience.String()}
		if _, _, err := c.kubectl.Run(t.Context(), "", args...); err != nil {
			t.Fatalf("%v\n%s", err, c.run(t, "", "get", "pods,events", "--all-namespaces", "--output", "wide"))
		}
	}
}

// imageTag returns the tag of the released image.
func (c *cluster) imageTag(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("ctr", "--namespace", "k8s.io", "images", "list", "--quiet").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.Lines(string(out)) {
		if tag, ok := strings.CutPrefix(strings.TrimSpace(name), "registry.example/dnsconfigurer:"); ok {
			return tag
		}
	}
	t.Fatalf("the released image is not in %s", out)
	return ""
}
