// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// operatorKinds are the resources of the Prometheus operator that the chart creates, without
// their schema.
const operatorKinds = `
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: podmonitors.monitoring.coreos.com}, spec: {
  group: monitoring.coreos.com, scope: Namespaced, names: {kind: PodMonitor, plural: podmonitors, singular: podmonitor}, versions: [
    {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: prometheusrules.monitoring.coreos.com}, spec: {
  group: monitoring.coreos.com, scope: Namespaced, names: {kind: PrometheusRule, plural: prometheusrules,
    singular: prometheusrule}, versions: [
    {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}
`

// cluster is an API server without controllers, and its clients.
type cluster struct {
	*testing.T
	api       *apiserver.Cluster
	kubectl   *apiserver.Kubectl
	env       []string // of helm
	namespace string   // of the release
}

// TestCluster tests the chart with an API server. Each test has a namespace of its own, and removes what is
// outside.
func TestCluster(t *testing.T) {
	c := newCluster(t)
	for _, test := range []struct {
		name string
		run  func(*cluster)
	}{
		{"dry-run", testDryRun},
		{"lifecycle", testLifecycle},
		{"service-ports", testServicePorts},
		{"restricted", testRestricted},
		{"from-manifests", testFromManifests},
		{"release", testRelease},
		{"migration", testMigration}, // leaves the Service kube-dns
	} {
		t.Run(test.name, func(t *testing.T) {
			c := *c
			c.T, c.namespace = t, test.name
			test.run(&c)
		})
	}
}

// newCluster starts an API server.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	server := apiserver.Start(t)
	c := &cluster{T: t, namespace: system, api: server, kubectl: server.Kubectl(t),
		env: append(os.Environ(), "KUBECONFIG="+server.KubeconfigFile())}
	for _, dir := range []string{"HELM_CONFIG_HOME", "HELM_CACHE_HOME", "HELM_DATA_HOME"} {
		c.env = append(c.env, dir+"="+t.TempDir())
	}
	c.run(operatorKinds, "apply", "-f", "-")
	c.run("", "wait", "--for=condition=Established", "--timeout=1m", "crd", "--all")
	return c
}

// run runs kubectl and returns its output. A warning of the API server is an error.
func (c *cluster) run(stdin string, args ...string) string {
	c.Helper()
	stdout, stderr, err := c.kubectl.Run(c.Context(), stdin, args...)
	if err != nil || strings.Contains(stderr, "Warning:") {
		c.Fatalf("kubectl %q: %v\n%s", args, err, stderr)
	}
	return stdout
}

// helm runs helm, which must succeed.
func (c *cluster) helm(args ...string) {
	c.Helper()
	must.Succeed(c, c.tryHelm(args...))
}

// tryHelm runs helm. A line of a warning is an error.
func (c *cluster) tryHelm(args ...string) error {
	cmd := exec.CommandContext(c.Context(), helmPath, append(args, "--namespace", c.namespace)...)
	cmd.Env = c.env
	var problems bytes.Buffer
	cmd.Stderr = &problems
	if _, err := cmd.Output(); err != nil || strings.Contains(strings.ToLower(problems.String()), "warning") {
		return fmt.Errorf("helm %q: %v\n%s", args, err, &problems)
	}
	return nil
}

// testDryRun checks with a real API server what the chart renders, with each set of
// values: no unknown fields, no invalid values, no warnings.
func testDryRun(c *cluster) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 4 {
		c.Fatalf("%q, %v", files, err)
	}
	for _, values := range append(files, filepath.Join(chartDir, "values.yaml")) {
		out := must.Get(helm(c.T, "template", "dnsconfigurer", chartDir, "--namespace", "kube-system",
			"--kube-version", "1.36.0", "--values", values))(c)
		applied := c.run(out, "apply", "--server-side", "--dry-run=server", "-f", "-")
		if got, want := strings.Count(applied, "\n"), len(objects(c.T, out)); got != want {
			c.Errorf("%s: the API server accepted %d objects of %d:\n%s", values, got, want, applied)
		}
	}
}

// previousChart returns a copy of the chart with an older version and other defaults: no release has
// a chart yet.
func previousChart(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dnsconfigurer")
	must.Succeed(t, os.CopyFS(dir, os.DirFS(chartDir)))
	for file, edits := range map[string][]string{
		"Chart.yaml":  {"version: 0.1.0", "version: 0.0.9"},
		"values.yaml": {"  replicas: 2\n  # Fields of the DNSConfiguration", "  replicas: 3\n  # Fields of the DNSConfiguration"},
	} {
		path := filepath.Join(dir, file)
		text := must.Get(os.ReadFile(path))(t)
		edited := strings.Replace(string(text), edits[0], edits[1], 1)
		if edited == string(text) {
			t.Fatalf("%s has no %q", file, edits[0])
		}
		must.Succeed(t, os.WriteFile(path, []byte(edited), 0o644))
	}
	return dir
}

// list returns the objects of all kinds with their generation and resource version, by their
// kind, namespace and name. Objects that the API server writes by itself are left out.
func (c *cluster) list() map[string]version {
	c.Helper()
	kinds := strings.Fields(c.run("", "api-resources", "--verbs=list", "--output=name"))
	kinds = slices.DeleteFunc(kinds, func(kind string) bool {
		return slices.Contains([]string{"componentstatuses", "endpoints", "events",
			"events.events.k8s.io", "leases.coordination.k8s.io"}, kind)
	})
	var all struct {
		Items []struct {
			Kind     string
			Metadata struct {
				Namespace, Name, UID, ResourceVersion string
				Generation                            int
			}
		}
	}
	must.Succeed(c, yaml.Unmarshal([]byte(c.run("", "get", strings.Join(kinds, ","), "--all-namespaces", "--output=yaml")), &all))
	found := map[string]version{}
	for _, o := range all.Items {
		found[strings.TrimSpace(o.Kind+" "+o.Metadata.Namespace)+"/"+
			o.Metadata.Name] = version{o.Metadata.UID, o.Metadata.Generation, o.Metadata.ResourceVersion}
	}
	return found
}

// version is the state of an object.
type version struct {
	uid        string
	generation int
	resource   string
}

// withoutReleases removes helm's records of its releases.
func (c *cluster) withoutReleases(objects map[string]version) map[string]version {
	maps.DeleteFunc(objects, func(key string, _ version) bool {
		return strings.HasPrefix(key, "Secret "+c.namespace+"/sh.helm.release.")
	})
	return objects
}

// added returns the sorted keys of after that before does not have.
func added(before, after map[string]version) (keys []string) {
	for key := range after {
		if _, found := before[key]; !found {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (c *cluster) wantReplicas(want int) {
	c.Helper()
	if got := c.run("", "get", "deployment", "dnsconfigurer-dns", "--namespace", c.namespace,
		"--output=jsonpath={.spec.replicas}"); got != strconv.Itoa(want) {
		c.Errorf("%s replicas, want %d", got, want)
	}
}

// testLifecycle installs the chart with all components, installs it again, upgrades it
// from an older version, rolls back, and uninstalls it.
func testLifecycle(c *cluster) {
	before := c.list()
	values := []string{"--values", "testdata/everything.yaml"}
	upgrade := append([]string{"upgrade", "--install", "dnsconfigurer", chartDir}, values...)

	c.helm(append([]string{"install", "dnsconfigurer", previousChart(c.T), "--create-namespace"}, values...)...)
	c.wantReplicas(3)
	old := added(before, c.withoutReleases(c.list()))

	c.helm(upgrade...)
	c.wantReplicas(2)
	current := c.withoutReleases(c.list())
	if got := added(before, current); !slices.Equal(got, old) {
		c.Errorf("objects after the upgrade: %q, before: %q", got, old)
	}

	c.helm(upgrade...)
	for key, v := range c.withoutReleases(c.list()) {
		if v != current[key] {
			c.Errorf("%s has changed without a change of the chart: %+v, before %+v", key, v, current[key])
		}
	}

	c.helm(append(upgrade, "--set", "agent.enabled=false,nodeCache.enabled=false")...)
	less := c.withoutReleases(c.list())
	for _, key := range added(less, current) {
		if !strings.Contains(key, "-agent") && !strings.Contains(key, "-nri") && !strings.Contains(key, "-node-cache") {
			c.Errorf("%s was removed with agent and node cache", key)
		}
	}
	if _, found := less["DaemonSet "+c.namespace+"/dnsconfigurer-agent"]; found || len(less) >= len(current) {
		c.Error("the agent is still installed")
	}

	c.helm("rollback", "dnsconfigurer", "1")
	c.wantReplicas(3)
	if got := added(before, c.withoutReleases(c.list())); !slices.Equal(got, old) {
		c.Errorf("objects after the rollback: %q, want %q", got, old)
	}

	c.helm("uninstall", "dnsconfigurer")
	after := c.list()
	want := []string{"Namespace/" + c.namespace} // as docs/install.md says
	if got := added(before, after); !slices.Equal(got, want) {
		c.Errorf("left after the uninstallation: %q, want %q", got, want)
	}
	if lost := added(after, before); len(lost) > 0 {
		c.Errorf("removed with the chart: %q", lost)
	}
}

// testServicePorts checks that the cluster DNS is not installed where an existing Service would
// send queries to a port of its pods that has no server, and that an installed one can be upgraded.
func testServicePorts(c *cluster) {
	c.run("", "create", "namespace", c.namespace)
	setService := func(selector, targetPort string) {
		c.run(fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: any, namespace: %s}, spec: {
			selector: {%s}, ports: [{name: dns, port: 53, protocol: UDP, targetPort: dns},
				{name: dns-tcp, port: 53, protocol: TCP, targetPort: %s}, {name: metrics, port: 9153, targetPort: 9153}]}}`,
			c.namespace, selector, targetPort), "apply", "--server-side", "--force-conflicts", "-f", "-")
	}
	const selector, with, without = "k8s-app: kube-dns", "dns.port53=true", "dns.port53=false"
	const want5353 = "the Service service-ports/any selects the pods and has targetPort 5353 for port 53/TCP, " +
		"and the pods listen on 53 and 1053"

	for _, tt := range []struct{ selector, targetPort, set, want string }{
		{selector, "5353", "dns.enabled=true", want5353},
		{`"app.kubernetes.io/component": dns`, "5353", "dns.enabled=true", want5353},
		{`"app.kubernetes.io/component": dns, k8s-app: kube-dns`, "5353", "dns.service.create=true", want5353},
		{`"app.kubernetes.io/component": dns`, "53", without, "and the pods listen on 1053"},
		{selector, "5353", "dns.enabled=false", ""},
		{selector, "5353", without, ""},
		{"app: other, k8s-app: kube-dns", "5353", "dns.enabled=true", ""},
		{selector, "53", "dns.enabled=true", ""},
		{selector, "1053", "dns.enabled=true", ""},
		{selector, "dns-tcp", "dns.enabled=true", ""},
	} {
		c.run("", "delete", "service", "any", "--namespace", c.namespace, "--ignore-not-found")
		setService(tt.selector, tt.targetPort)
		err := c.tryHelm("install", "dnsconfigurer", chartDir, "--dry-run=server", "--set", tt.set)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			c.Errorf("selector %s, targetPort %s, --set %s: %v, want %q", tt.selector, tt.targetPort, tt.set, err, tt.want)
		}
	}

	c.helm("install", "dnsconfigurer", chartDir, "--set", without)
	setService(selector, "5353")
	if err := c.tryHelm("upgrade", "dnsconfigurer", chartDir, "--set", with); err == nil || !strings.Contains(err.Error(), want5353) {
		c.Errorf("upgrade of pods without port 53: %v", err)
	}
	setService(selector, "53")
	c.helm("upgrade", "dnsconfigurer", chartDir, "--set", with)
	setService(selector, "5353")
	c.helm("upgrade", "dnsconfigurer", chartDir, "--set", "dns.replicas=3")
	c.wantReplicas(3)
	c.helm("uninstall", "dnsconfigurer")
}

// testRestricted checks that the level restricted of the Pod Security Standards permits the pods of
// the cluster DNS with their sysctl.
func testRestricted(c *cluster) {
	c.run("", "create", "namespace", c.namespace)
	c.run("", "label", "namespace", c.namespace, "pod-security.kubernetes.io/enforce=restricted")
	c.run("", "create", "serviceaccount", "dnsconfigurer-dns", "--namespace", c.namespace)
	template := at(render(c.T, "")["Deployment dnsconfigurer-dns"], "spec", "template").(map[string]any)
	template["apiVersion"], template["kind"] = "v1", "Pod"
	metadata := template["metadata"].(map[string]any)
	metadata["name"], metadata["namespace"] = "dns", c.namespace
	for sysctl, want := range map[string]string{"net.ipv4.ip_unprivileged_port_start": "", "net.core.somaxconn": "forbidden sysctls"} {
		at(template, "spec", "securityContext").(map[string]any)["sysctls"].([]any)[0].(map[string]any)["name"] = sysctl
		text := must.Get(yaml.Marshal(template))(c)
		got := c.kubectl.DryRun(c.Context(), string(text))
		if len(got.Warnings) > 0 || (got.Refused == "") != (want == "") || !strings.Contains(got.Refused, want) {
			c.Errorf("%s: %+v, want %q", sysctl, got, want)
		}
	}
}

// helmLine matches the lines that "make manifests" removes from what helm renders.
var helmLine = regexp.MustCompile(`(?m)^ *(app\.kubernetes\.io/managed-by|helm\.sh/chart): .*\n`)

// testFromManifests replaces manifests of "make manifests" by a release of the chart, as
// docs/install.md says: the objects stay, so that their pods do, and belong to the release.
func testFromManifests(c *cluster) {
	c.run("", "create", "namespace", c.namespace)
	before := c.list()
	values := []string{"--set", "dns.enabled=true,nodeCache.enabled=true,agent.enabled=true,policies.enabled=true"}
	template := []string{"template", "dnsconfigurer", chartDir, "--namespace", c.namespace, "--kube-version", "1.36.0"}
	text := must.Get(helm(c.T, append(template, values...)...))(c)
	c.run(helmLine.ReplaceAllString(text, ""), "apply", "--server-side", "-f", "-")
	applied := c.list()

	c.helm(append([]string{"install", "dnsconfigurer", chartDir, "--take-ownership", "--force-conflicts"}, values...)...)
	c.helm(append([]string{"upgrade", "dnsconfigurer", chartDir, "--force-conflicts", "--set", "dns.replicas=3"}, values...)...)
	c.wantReplicas(3)
	adopted := c.withoutReleases(c.list())
	if lost, more := added(adopted, applied), added(applied, adopted); len(lost)+len(more) > 0 {
		c.Errorf("objects removed by the installation: %q, added: %q", lost, more)
	}
	for key, v := range applied {
		if got := adopted[key]; got.uid != v.uid {
			c.Errorf("%s was deleted and created again", key)
		}
	}

	c.helm("uninstall", "dnsconfigurer")
	if got := added(before, c.list()); len(got) > 0 {
		c.Errorf("left after the uninstallation: %q", got)
	}
}
