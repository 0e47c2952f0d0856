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
	t.Run("agent", c.testAgent)
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

// helm runs helm for the release of the chart.
func (c *cluster) helm(t *testing.T, stdin string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.Helm, append(args, "--namespace", "kube-system")...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+adminIdentity,
		"HELM_CONFIG_HOME="+c.Dir, "HELM_CACHE_HOME="+c.Dir, "HELM_DATA_HOME="+c.Dir)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}

// install installs the chart, or upgrades it, and returns when only pods with the image and the
// values run. Settings are values, such as agent.enabled=true.
func (c *cluster) install(t *testing.T, imageTag string, settings ...string) {
	t.Helper()
	args := []string{"upgrade", "--install", "dnsconfigurer", "../../deploy/chart", "--values", "-", "--set", "image.tag=" + imageTag}
	for _, setting := range settings {
		args = append(args, "--set", setting)
	}
	c.helm(t, values, args...)
	objects := c.run(t, "", "get", "deployments,daemonsets", "--namespace", "kube-system", "--output", "name")
	for object := range strings.FieldsSeq(objects) {
		if object == "daemonset.apps/dnsconfigurer-nri" {
			continue // OnDelete: rollout status refuses it
		}
		c.rollout(t, object)
	}
}

// rollout returns when a workload of the chart is up to date and available.
func (c *cluster) rollout(t *testing.T, object string) {
	t.Helper()
	args := []string{"rollout", "status", object, "--namespace", "kube-system", "--timeout", patience.String()}
	if _, _, err := c.kubectl.Run(t.Context(), "", args...); err != nil {
		t.Fatalf("%v\n%s", err, c.run(t, "", "get", "pods,events", "--all-namespaces", "--output", "wide"))
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
