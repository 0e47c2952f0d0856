// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

const chartDir = "../../deploy/chart"

var update = flag.Bool("update", false, "write values.schema.json")

// helmPath is the path of helm, a tool of this module.
var helmPath string

func TestMain(m *testing.M) {
	flag.Parse()
	// Each "go tool helm" would examine a thousand packages. The file is in Go's build cache.
	build := exec.Command("go", "tool", "-n", "helm")
	build.Stderr = os.Stderr
	path, err := build.Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "building helm:", err)
		os.Exit(1)
	}
	helmPath = strings.TrimSpace(string(path))
	os.Exit(m.Run())
}

func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(helmPath, args...)
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_CACHE_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir())
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return out.String(), errors.New(err.Error() + "\n" + problems.String())
	}
	return out.String(), nil
}

// render returns the objects of the chart with the values of a file in testdata, by kind and
// name; "" are the defaults.
func render(t *testing.T, values string, args ...string) map[string]map[string]any {
	t.Helper()
	args = append([]string{"template", "dnsconfigurer", chartDir, "--namespace", "kube-system", "--kube-version", "1.36.0"}, args...)
	if values != "" {
		args = append(args, "--values", filepath.Join("testdata", values))
	}
	out, err := helm(t, args...)
	if err != nil {
		t.Fatalf("%s: %v", values, err)
	}
	return objects(t, out)
}

func objects(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for _, document := range regexp.MustCompile(`(?m)^---$`).Split(text, -1) {
		var o map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if o == nil {
			continue
		}
		metadata := o["metadata"].(map[string]any)
		found[o["kind"].(string)+" "+metadata["name"].(string)] = o
	}
	return found
}

// allowed are the values of Kubernetes' own fields, by their keys.
var allowed = map[string][]string{
	"pullPolicy":     {"Always", "IfNotPresent", "Never"},
	"ipFamilyPolicy": {"SingleStack", "PreferDualStack", "RequireDualStack"},
}

// schemaOf returns the JSON schema of a value: the keys and types of values.yaml, and no
// others. What is empty there, and Kubernetes' own structures, may have any content.
func schemaOf(key string, value any) map[string]any {
	if words, found := allowed[key]; found {
		return map[string]any{"enum": words}
	}
	if key == "maxUnavailable" || key == "maxSurge" {
		return map[string]any{"type": []string{"integer", "string"}, "minimum": 0, "pattern": "^(100|[1-9]?[0-9])%$"}
	}
	switch value := value.(type) {
	case map[string]any:
		schema := map[string]any{"type": "object"}
		if len(value) == 0 || key == "resources" || key == "labels" {
			return schema
		}
		properties := map[string]any{}
		for k, v := range value {
			properties[k] = schemaOf(k, v)
		}
		if key == "" {
			properties["global"] = map[string]any{"type": "object"} // of a parent chart
		}
		schema["properties"], schema["additionalProperties"] = properties, false
		return schema
	case []any:
		return map[string]any{"type": "array"}
	case bool:
		return map[string]any{"type": "boolean"}
	case string:
		return map[string]any{"type": "string"}
	}
	return map[string]any{"type": "integer", "minimum": 0}
}

// TestSchema checks that values.schema.json describes values.yaml.
func TestSchema(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join(chartDir, "values.yaml")))(t)
	var values map[string]any
	must.Succeed(t, yaml.UnmarshalStrict(text, &values))
	schema := schemaOf("", values)
	schema["$schema"] = "https://json-schema.org/draft-07/schema#"
	want := must.Get(json.MarshalIndent(schema, "", "  "))(t)
	want = append(want, '\n')
	path := filepath.Join(chartDir, "values.schema.json")
	if *update {
		must.Succeed(t, os.WriteFile(path, want, 0o644))
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("values.schema.json does not describe values.yaml (%v): run go test -update", err)
	}
}

// TestSchema_Rejects checks that a value that nothing reads, and one that the API server would
// refuse only when the release is installed, are refused with their key.
func TestSchema_Rejects(t *testing.T) {
	for set, want := range map[string]string{
		"dns.replica=3":                             "'replica'",
		"nodecache.enabled=true":                    "'nodecache'",
		"image.tagg=x":                              "'tagg'",
		"dns.enabled=maybe":                         "/dns/enabled",
		"dns.replicas=-1":                           "/dns/replicas",
		"dns.replicas=two":                          "/dns/replicas",
		"webhook.replicas=1.5":                      "/webhook/replicas",
		"agent.maxUnavailable=ten":                  "/agent/maxUnavailable",
		"agent.maxUnavailable=101%":                 "/agent/maxUnavailable",
		"dns.podDisruptionBudget.maxUnavailable=-1": "/dns/podDisruptionBudget/maxUnavailable",
		"image.pullPolicy=Sometimes":                "/image/pullPolicy",
		"dns.service.ipFamilyPolicy=IPv6":           "/dns/service/ipFamilyPolicy",
	} {
		_, err := helm(t, "template", "dnsconfigurer", chartDir, "--set", set)
		if err == nil || !strings.Contains(err.Error(), "schema") || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v, want an error of the schema about %s", set, err, want)
		}
	}
	for _, set := range []string{"dns.replicas=0", "agent.maxUnavailable=25%", "agent.maxUnavailable=100%", "agent.maxUnavailable=1"} {
		render(t, "", "--set", set)
	}
}

// TestLint runs helm's own checks with each set of values.
func TestLint(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range append(files, filepath.Join(chartDir, "values.yaml")) {
		if out, err := helm(t, "lint", "--strict", chartDir, "--values", file); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}

// TestChart_Policies checks that the chart has the policies that the program prints.
func TestChart_Policies(t *testing.T) {
	rendered := render(t, "everything.yaml", "--set",
		"clusterDomain=corp.example,clusterDNSAddress=10.0.0.10,policies.allowedOverrides={None,Default},excludedNamespaces={ci,123}")
	out := must.Get(exec.Command(process.Build(t), "policies", "--cluster-domain", "corp.example",
		"--cluster-dns", "10.0.0.10", "--allowed-overrides", "None,Default", "--exclude-namespace", "ci,123").Output())(t)
	want := objects(t, string(out))
	if len(want) < 5 {
		t.Fatalf("%d objects", len(want))
	}
	for key, o := range want {
		if diff := difference(t, o, rendered[key]); diff != "" {
			t.Errorf("%s (-program +chart):\n%s", key, diff)
		}
	}
}

// TestChart_Configuration checks the configurations that the chart renders as the servers
// read them.
func TestChart_Configuration(t *testing.T) {
	program := process.Build(t)
	files := must.Get(filepath.Glob("testdata/*.yaml"))(t)
	checked := 0
	for _, values := range append(files, "") {
		if values != "" {
			values = filepath.Base(values)
		}
		for name, o := range render(t, values) {
			data, _ := o["data"].(map[string]any)
			for key, text := range data {
				if !strings.HasSuffix(key, ".yaml") { // the dashboard
					continue
				}
				file := filepath.Join(t.TempDir(), key)
				must.Succeed(t, os.WriteFile(file, []byte(text.(string)), 0o644))
				checked++
				// The files that it names are in the container or on the node.
				if out, err := exec.Command(program, "config", "check", "--no-files", file).CombinedOutput(); err != nil {
					t.Errorf("%s: %s: %v\n%s\n%s", values, name, err, out, text)
				}
			}
		}
	}
	if checked < 5 {
		t.Errorf("%d configurations checked", checked)
	}
}

// TestChart_ImportedCorefile renders the chart with the file that import-corefile writes as dns.config.
func TestChart_ImportedCorefile(t *testing.T) {
	const corefile = ".:53 {\n errors\n health {\n lameduck 5s\n }\n ready\n kubernetes cluster.local in-addr.arpa ip6.arpa {\n" +
		" pods insecure\n fallthrough in-addr.arpa ip6.arpa\n ttl 30\n }\n prometheus :9153\n forward . /etc/resolv.conf\n cache 30\n}\n"
	importer := exec.Command(process.Build(t), "import-corefile", "-")
	importer.Stdin = strings.NewReader(corefile)
	imported := must.Get(importer.Output())(t)
	values := filepath.Join(t.TempDir(), "values.yaml")
	text := "dns:\n  config:\n" + regexp.MustCompile(`(?m)^`).ReplaceAllString(string(imported), "    ")
	must.Succeed(t, os.WriteFile(values, []byte(text), 0o644))
	configuration := func(args ...string) map[string]any {
		t.Helper()
		data := render(t, "", args...)["ConfigMap dnsconfigurer-dns"]["data"].(map[string]any)
		var c map[string]any
		must.Succeed(t, yaml.UnmarshalStrict([]byte(data["dns.yaml"].(string)), &c))
		return c
	}
	want := configuration("--set", "dns.config.lameduck=5s,dns.config.pods=insecure,dns.config.ttl=30,dns.config.upstreamPolicy=random")
	if got := configuration("--values", values); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestChart_Monitoring checks that the chart has the rules and the dashboard of deploy.
func TestChart_Monitoring(t *testing.T) {
	rendered := render(t, "everything.yaml")
	text := must.Get(os.ReadFile("../../deploy/monitoring/rules.yaml"))(t)
	var want any
	must.Succeed(t, yaml.Unmarshal(text, &want))
	if diff := difference(t, want, rendered["PrometheusRule dnsconfigurer"]["spec"]); diff != "" {
		t.Errorf("deploy/monitoring/rules.yaml and the chart (-file +chart):\n%s", diff)
	}
	data := rendered["ConfigMap dnsconfigurer-dashboard"]["data"].(map[string]any)
	if text := data["dnsconfigurer.json"].(string); !json.Valid([]byte(text)) || !strings.Contains(text, "{{source}}") {
		t.Errorf("dashboard:\n%s", text)
	}
}

// alerts returns the names of the alerts in the rendered rules.
func alerts(rendered map[string]map[string]any) (names []string) {
	for _, group := range at(rendered["PrometheusRule dnsconfigurer"], "spec", "groups").([]any) {
		for _, rule := range group.(map[string]any)["rules"].([]any) {
			names = append(names, rule.(map[string]any)["alert"].(string))
		}
	}
	return names
}

// TestChart_MonitoringWithoutDNS checks that a release without the cluster DNS has all alerts except
// the one that is raised for as long as there is no cluster DNS.
func TestChart_MonitoringWithoutDNS(t *testing.T) {
	want := slices.DeleteFunc(alerts(render(t, "everything.yaml")), func(name string) bool { return name == "ClusterDNSDown" })
	if got := alerts(render(t, "everything.yaml", "--set", "dns.enabled=false")); !slices.Equal(got, want) {
		t.Errorf("alerts %q, want %q", got, want)
	}
}

// TestChart_Values checks values that change what is rendered.
func TestChart_Values(t *testing.T) {
	if got := render(t, "", "--set", "dns.enabled=false"); len(got) != 0 {
		t.Errorf("everything switched off: %v", got)
	}
	image := func(args ...string) string {
		d := at(render(t, "", args...)["Deployment dnsconfigurer-dns"], "spec", "template", "spec", "containers")
		return d.([]any)[0].(map[string]any)["image"].(string)
	}
	for want, args := range map[string][]string{
		"registry.corp.example:5000/dnsconfigurer:v9": {"--set",
			"image.registry=registry.corp.example:5000,image.tag=v9"},
		"registry.corp.example/mirror/dnsconfigurer:v9": {"--set",
			"image.registry=registry.corp.example/mirror/,image.tag=v9"},
		"registry.example/dnsconfigurer@sha256:" + strings.Repeat("a", 64): {"--set",
			"image.tag=v9,image.digest=sha256:" + strings.Repeat("a", 64)},
	} {
		if got := image(args...); got != want {
			t.Errorf("%v: image %s, want %s", args, got, want)
		}
	}
	for set, want := range map[string]string{
		"clusterDomain=two words":                                                          "clusterDomain: ",
		"excludedNamespaces={ci,Team}":                                                     "excludedNamespaces: ",
		"policies.allowedOverrides={Nothing}":                                              "policies.allowedOverrides: ",
		"clusterDNSAddress=x":                                                              "clusterDNSAddress: ",
		"clusterDNSAddress=10.96.0.256":                                                    "clusterDNSAddress: ",
		"clusterDNSAddress=10.96.0":                                                        "clusterDNSAddress: ",
		"clusterDNSAddress=abc":                                                            "clusterDNSAddress: ",
		"image.digest=aaaa":                                                                "image.digest: ",
		"nodeCache.enabled=true,nodeCache.listen={169.254.20.10}":                          "nodeCache.listen: ",
		"nodeCache.enabled=true,nodeCache.listen={}":                                       "nodeCache.listen: ",
		"nodeCache.enabled=true,nodeCache.http=localhost":                                  "nodeCache.http: ",
		"clusterDNSAddress=10.96.0.10.":                                                    "clusterDNSAddress: ",
		"agent.enabled=true,agent.maxUnavailable=0":                                        "agent.maxUnavailable: ",
		"agent.enabled=true,agent.maxUnavailable=0%":                                       "agent.maxUnavailable: ",
		"nodeCache.enabled=true,nodeCache.maxSurge=0":                                      "nodeCache.maxSurge: ",
		"dns.config.listen={[::]:5353}":                                                    "dns.config.listen: ",
		"dns.config.http=:8080":                                                            "dns.config.http: ",
		"nodeCache.enabled=true,nodeCache.config.http=127.0.0.1:9999":                      "nodeCache.config.http: set nodeCache.http",
		"agent.enabled=true,agent.config.sandboxDirectories={/run/a}":                      "agent.config.sandboxDirectories: set",
		"webhook.config.http=:80":                                                          "webhook.config.http: ",
		"commonLabels.k8s-app=dns":                                                         "commonLabels: k8s-app: ",
		`nodeCache.podLabels.app\.kubernetes\.io/component=x`:                              "nodeCache.podLabels: app.kubernetes",
		"dns.networkPolicy.enabled=true":                                                   "dns.networkPolicy.apiServer: list",
		"dns.networkPolicy.enabled=true,dns.networkPolicy.apiServer[0].cidr=192.0.2.10/32": "dns.networkPolicy.apiServer: each",
		"dns.networkPolicy.enabled=true,dns.networkPolicy.apiServer[0].port=6443":          "dns.networkPolicy.apiServer: each",
		"webhook.enabled=true,webhook.networkPolicy.enabled=true":                          "webhook.networkPolicy.apiServerCIDRs: ",
		"webhook.enabled=true,webhook.certificate.source=x":                                "webhook.certificate.source: ",
		"webhook.enabled=true,webhook.certificate.source=certManager":                      "webhook.certificate.issuer.name: ",
		"webhook.enabled=true,webhook.certificate.source=secret":                           "webhook.certificate.caBundle: ",
		"webhook.enabled=true,webhook.certificate.caBundle=x":                              "webhook.certificate.caBundle: ",
	} {
		if _, err := helm(t, "template", "dnsconfigurer", chartDir, "--set", set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v, want an error about %s", set, err, want)
		}
	}
	for component, oldest := range map[string]string{"webhook": "1.28.0", "policies": "1.35.0", "autopath": "1.36.0"} {
		if _, err := helm(t, "template", "dnsconfigurer", chartDir, "--set", component+".enabled=true",
			"--kube-version", "1.27.9"); err == nil || !strings.Contains(err.Error(), component+".enabled: needs Kubernetes") {
			t.Errorf("%s in Kubernetes 1.27: %v", component, err)
		}
		render(t, "", "--set", component+".enabled=true", "--kube-version", oldest)
	}
	for key, o := range render(t, "everything.yaml", "--set", "namespaceOverride=dns-system") {
		if namespace, found := o["metadata"].(map[string]any)["namespace"]; found && namespace != "dns-system" {
			t.Errorf("%s is in namespace %v", key, namespace)
		}
	}
}

// TestChart_Strings checks that values that look like numbers or like YAML are still strings: the API
// server refuses a number as a label, as a namespace, or as an environment variable.
func TestChart_Strings(t *testing.T) {
	out := must.Get(helm(t, "template", "123", chartDir, "--namespace", "456", "--kube-version", "1.36.0",
		"--values", "testdata/everything.yaml", "--set-string",
		"clusterDNSAddress=fd00::,dns.goMemLimit=1000,nodeCache.goMemLimit=1000,agent.goMemLimit=1000,"+
			"agent.relay.goMemLimit=1000,webhook.goMemLimit=1000,commonLabels.team=7,dns.podLabels.team=8"))(t)
	rendered := objects(t, out)
	for key, o := range rendered {
		var meta struct {
			Metadata struct {
				Namespace any
				Labels    map[string]any
			}
			Spec struct {
				Template struct {
					Metadata struct{ Labels map[string]any }
					Spec     struct {
						Containers []struct{ Env []struct{ Value any } }
					}
				}
			}
		}
		text := must.Get(yaml.Marshal(o))(t)
		if err := yaml.Unmarshal(text, &meta); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		values := slices.AppendSeq([]any{meta.Metadata.Namespace}, maps.Values(meta.Metadata.Labels))
		values = slices.AppendSeq(values, maps.Values(meta.Spec.Template.Metadata.Labels))
		for _, c := range meta.Spec.Template.Spec.Containers {
			for _, e := range c.Env {
				values = append(values, e.Value)
			}
		}
		for _, value := range values {
			if _, ok := value.(string); value != nil && !ok {
				t.Errorf("%s has the value %v of type %T, want a string", key, value, value)
			}
		}
	}
	if got := at(rendered["Service kube-dns"], "spec", "clusterIP"); got != "fd00::" {
		t.Errorf("clusterIP %v, want fd00::", got)
	}
	if got := at(rendered["Deployment 123-dnsconfigurer-dns"], "spec", "template", "metadata", "labels", "team"); got != "8" {
		t.Errorf("label of pods %v, want that of podLabels", got)
	}
}

// emptyKeys returns the paths of the values that are empty, such as imagePullSecrets.
func emptyKeys(path string, value any) (keys []string) {
	switch value := value.(type) {
	case map[string]any:
		for k, v := range value {
			keys = append(keys, emptyKeys(strings.TrimPrefix(path+"."+k, "."), v)...)
		}
		if len(value) > 0 {
			return keys
		}
	case []any:
		if len(value) > 0 {
			return nil
		}
	default:
		return nil
	}
	return []string{path}
}

// TestChart_Null checks values of a key without anything below it, which is null: what is left of
// "config:" when its fields are comments.
func TestChart_Null(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join(chartDir, "values.yaml")))(t)
	var values map[string]any
	must.Succeed(t, yaml.Unmarshal(text, &values))
	keys := emptyKeys("", values)
	if len(keys) < 30 {
		t.Errorf("only %d empty values: %q", len(keys), keys)
	}
	// A self-signed certificate is another one in each rendering.
	const all = "nodeCache.enabled=true,agent.enabled=true,webhook.enabled=true,policies.enabled=true," +
		"webhook.certificate.source=certManager,webhook.certificate.issuer.name=ca"
	want := render(t, "", "--set", all)
	got := render(t, "", "--set", strings.Join(keys, "=null,")+"=null,"+all)
	for key := range want {
		if diff := difference(t, want[key], got[key]); diff != "" {
			t.Errorf("%s (-empty +null):\n%s", key, diff)
		}
	}
}

// TestChart_NodeCacheProbes checks that the probes query the address of the node cache's pages.
func TestChart_NodeCacheProbes(t *testing.T) {
	for http, want := range map[string]any{
		"127.0.0.1:9353": "127.0.0.1",
		"[::1]:9353":     "::1",
		":9353":          "127.0.0.1",
		"[::]:9353":      "127.0.0.1",
	} {
		o := render(t, "", "--set", "nodeCache.enabled=true", "--set-string", "nodeCache.http="+http)["DaemonSet dnsconfigurer-node-cache"]
		container := at(o, "spec", "template", "spec", "containers").([]any)[0].(map[string]any)
		for _, probe := range []string{"readinessProbe", "livenessProbe"} {
			if got := at(container, probe, "httpGet", "host"); got != want || at(container, probe, "httpGet", "port") != 9353.0 {
				t.Errorf("nodeCache.http %q: %s %v, want host %s", http, probe, container[probe], want)
			}
		}
	}
}

// TestChart_NodeCacheScraped checks that Prometheus finds the metrics of the node cache if they are at
// the address of its pod, and that podAnnotations replace the annotations.
func TestChart_NodeCacheScraped(t *testing.T) {
	const annotation = `nodeCache.podAnnotations.prometheus\.io/scrape=no`
	for _, tt := range []struct {
		http, set    string
		scrape, port any
	}{
		{"127.0.0.1:9353", "", nil, nil},
		{"[::1]:9353", "", nil, nil},
		{"169.254.20.10:9353", "", nil, nil},
		{":9353", "", "true", "9353"},
		{"0.0.0.0:9354", "", "true", "9354"},
		{"[::]:9353", "monitoring.podMonitor.enabled=true", "true", "9353"},
		{":9353", annotation, "no", "9353"},
	} {
		o := render(t, "", "--set", "nodeCache.enabled=true", "--set-string", "nodeCache.http="+tt.http,
			"--set", tt.set)["DaemonSet dnsconfigurer-node-cache"]
		annotations := at(o, "spec", "template", "metadata", "annotations").(map[string]any)
		if annotations["prometheus.io/scrape"] != tt.scrape || annotations["prometheus.io/port"] != tt.port ||
			annotations["checksum/config"] == nil {
			t.Errorf("nodeCache.http %q, --set %q: annotations %v, want scrape %v, port %v",
				tt.http, tt.set, annotations, tt.scrape, tt.port)
		}
	}
}

// TestChart_K3s checks that the documented values for K3s are those of the test data, which
// TestChart_Configuration checks, too, and that the agent then mounts the directories of K3s and no
// file of a kubeadm node.
func TestChart_K3s(t *testing.T) {
	page := must.Get(os.ReadFile("../../docs/install.md"))(t)
	block := regexp.MustCompile(`(?s)\n#### K3s\n.*?\n\n((?:    [^\n]*\n)+)`).FindSubmatch(page)
	want := must.Get(os.ReadFile("testdata/k3s.yaml"))(t)
	if block == nil || regexp.MustCompile(`(?m)^    `).ReplaceAllString(string(block[1]), "") != string(want) {
		t.Errorf("the values of docs/install.md differ from testdata/k3s.yaml:\n%s", block)
	}
	got := map[string]string{}
	template := render(t, "k3s.yaml")["DaemonSet dnsconfigurer-agent"]["spec"].(map[string]any)["template"].(map[string]any)
	for _, v := range template["spec"].(map[string]any)["volumes"].([]any) {
		if file, ok := v.(map[string]any)["hostPath"].(map[string]any); ok {
			got[file["path"].(string)], _ = file["type"].(string)
		}
	}
	mounted := map[string]string{
		"/etc/resolv.conf":                              "File",
		"/run/dnsconfigurer/nri":                        "DirectoryOrCreate",
		"/var/lib/rancher/k3s/agent/etc/kubelet.conf.d": "Directory",
		"/var/lib/rancher/k3s/agent/containerd/io.containerd.grpc.v1.cri/sandboxes": "DirectoryOrCreate",
	}
	if diff := difference(t, mounted, got); diff != "" {
		t.Errorf("files of the node (-want +chart):\n%s", diff)
	}
}
