// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// testCluster installs dnsconfigurer on a cluster and runs all tests there.
func testCluster(t *testing.T, p programs) {
	begin := time.Now()
	c := startCluster(t, p)
	c.logPods(t)
	since(t, "start of the cluster", begin)
	c.run(t, "", "create", "namespace", namespace)
	c.chart, c.image = previousChart(t, c.Dir), "image.tag="+c.imageTag(t)
	c.install(t)
	c.wait(t, "create", "serviceaccount/default")
	c.awaitAdmission(t)
	since(t, "start and installation", begin)
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"doctor", c.testDoctor},
		{"service", c.testService},
		{"policies", c.testPolicies},
		{"workloads", c.testWorkloads},
		{"advise", c.testAdvise},
		{"container of doctor", c.testEphemeralContainer},
		{"watchers", c.startWatchers},
		{"upgrade", c.testUpgrade},
		{"outage of the control plane", c.testOutage},
		{"agent", c.testAgent},
	} {
		t.Run(test.name, test.run)
	}
}

// logPods adds the ends of the logs of the system's pods to a failed test. It needs no API server.
func (c *cluster) logPods(t *testing.T) {
	t.Cleanup(func() {
		logs, _ := filepath.Glob("/var/log/pods/kube-system_*/*/*.log") // the pattern is valid
		for _, path := range logs {
			if p := (&process.Process{LogFile: path}); t.Failed() {
				t.Logf("%s:\n%s", path, p.Log())
			}
		}
	})
}

const currentChart = "../../deploy/chart"

// previousChart returns a copy of the chart, in dir, with an older version and other defaults: no
// release has a chart yet.
func previousChart(t *testing.T, dir string) string {
	t.Helper()
	previous := filepath.Join(dir, "previous-chart")
	must.Succeed(t, os.CopyFS(previous, os.DirFS(currentChart)))
	for file, edit := range map[string][2]string{
		"Chart.yaml":  {"version: 0.1.0", "version: 0.0.9"},
		"values.yaml": {"  replicas: 2\n  # Fields of the DNSConfiguration", "  replicas: 3\n  # Fields of the DNSConfiguration"},
	} {
		path := filepath.Join(previous, file)
		text := must.Get(os.ReadFile(path))(t)
		edited := strings.Replace(string(text), edit[0], edit[1], 1)
		if edited == string(text) {
			t.Fatalf("%s has no %q", path, edit[0])
		}
		writeFile(t, path, edited)
	}
	return previous
}

// values are the settings of the chart. This kernel may have no interfaces of type dummy. On a busy
// machine kube-proxy may take more than the usual ten seconds until it sends no more queries to a
// server that ends.
const values = `
image: {pullPolicy: Never}
dns:
  config:
    lameduck: 20s
    reverseCIDRs: [10.96.0.0/16, 10.244.0.0/16, "fd00:10:96::/112", "fd00:244::/64"]
    hostSuffixes: [corp.example, node.example] # as in hostResolvConf: a busy node cache may lose its lease
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
func (c *cluster) install(t *testing.T, settings ...string) {
	t.Helper()
	args := []string{"upgrade", "--install", "dnsconfigurer", c.chart, "--values", "-", "--set", c.image}
	for _, setting := range settings {
		args = append(args, "--set", setting)
	}
	c.helm(t, values, args...)
	c.rollouts(t)
}

// rollouts returns when all workloads of the chart are up to date and available.
func (c *cluster) rollouts(t *testing.T) {
	t.Helper()
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
	names := c.ctr(t, "list", "--quiet")
	for name := range strings.Lines(names) {
		if tag, ok := strings.CutPrefix(strings.TrimSpace(name), repository+":"); ok {
			return tag
		}
	}
	t.Fatalf("the released image is not in %s", names)
	return ""
}
