// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// TestAPIServerPolicies tests the admission policies in a real API server, without the webhook. Package
// cluster compares their messages with the rules.
func TestAPIServerPolicies(t *testing.T) {
	p := policyTest{apiserver.Start(t, withoutAccounts).Kubectl(t), map[string]bool{"default": true, "kube-system": true}}
	p.namespace(t, "payments")
	p.kubectl.MustRun(t, existing, "create", "-f", "-")
	enforce(t, p.kubectl)
	t.Run("unknown values", p.unknownValues)
	t.Run("left alone", p.leftAlone)
	t.Run("generated names", p.generatedNames)
}

// TestAPIServerPoliciesOldest is the oldest API that takes the policies. An API server
// takes new expressions only with what the release before it knows, too: the functions of 1.34.
func TestAPIServerPoliciesOldest(t *testing.T) {
	enforce(t, apiserver.Start(t, withoutAccounts, "--emulated-version=1.35", "--min-compatibility-version=1.34").Kubectl(t))
}

// withoutAccounts: no controller makes the service accounts of namespaces.
const withoutAccounts = "--disable-admission-plugins=ServiceAccount"

// everywhere has something that each of the bindings acts on.
const everywhere = `
{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: SPEC}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: a}, spec: {selector: {matchLabels: {app: a}},
  template: {metadata: {labels: {app: a}}, spec: SPEC}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {template: {spec: SPEC}}}
`

// rendered returns the policies for the values of a cluster.
func rendered(t testing.TB, domain string, servers, overrides []string) string {
	t.Helper()
	return string(must.Get(admission.PolicyConfig{ClusterDomain: domain, ClusterDNS: servers, AllowedOverrides: overrides}.YAML())(t))
}

// enforce applies the policies for cluster.local, and returns when the API server acts on each
// binding.
func enforce(t testing.TB, k *apiserver.Kubectl) {
	t.Helper()
	const spec = `{restartPolicy: Always, dnsPolicy: Default, setHostnameAsFQDN: true, dnsConfig: ` +
		`{options: [{name: "a\nb"}]}, containers: [{name: c, image: registry.example/c}]}`
	probe := strings.NewReplacer("template: {spec: SPEC",
		"template: {spec: "+strings.Replace(spec, "Always", "Never", 1), "SPEC", spec).Replace(everywhere)
	k.Enforce(t, rendered(t, "cluster.local", []string{"10.96.0.10"}, nil), probe, func(v apiserver.Verdict) bool {
		seen := strings.Join(v.Warnings, "\n") + v.Refused
		for _, kinds := range []string{"pods", "workloads", "jobs"} {
			for _, policy := range []string{"errors", "warnings"} {
				if !strings.Contains(seen, "with binding 'dnsconfigurer-"+kinds+"-"+policy+"'") {
					return false
				}
			}
		}
		return true
	})
}

type policyTest struct {
	kubectl *apiserver.Kubectl
	made    map[string]bool // namespaces
}

// namespace creates a namespace, unless it exists. One with an invalid name cannot exist.
func (p policyTest) namespace(t *testing.T, name string) {
	t.Helper()
	if p.made[name] {
		return
	}
	p.made[name] = true
	_, _, err := p.kubectl.Run(t.Context(), "", "create", "namespace", name)
	if valid := fqdn.LabelProblems(name) == nil; valid != (err == nil) {
		t.Fatalf("namespace %q: %v", name, err)
	}
}

// denied is how the API server says that it was us.
const denied = "ValidatingAdmissionPolicy 'dnsconfigurer-errors' with binding 'dnsconfigurer-pods-errors' denied request: "

// TestPolicies_Documented: docs/checks.md lists the codes that the policies do not report. They report all
// others, as the table of vectors has it.
func TestPolicies_Documented(t *testing.T) {
	table := must.Get(vectors.Load())(t)
	said := map[string]bool{}
	for _, v := range table {
		for _, f := range v.Findings {
			if v.Policies == "" && v.APIServer == "accepts" {
				said[f.Code] = true
			}
		}
	}
	text := must.Get(os.ReadFile("../../docs/checks.md"))(t)
	rules, rest, _ := strings.Cut(string(text), "## Admission policies")
	rules, _, _ = strings.Cut(rules, "\n#### Nodes\n") // which the API server does not see
	_, rest, _ = strings.Cut(rest, "#### What the policies do not check\n")
	list, _, _ := strings.Cut(rest, "\n## ")
	left := map[string]bool{}
	for _, code := range regexp.MustCompile("`([a-z]+(-[a-z]+)+)`").FindAllStringSubmatch(list, -1) {
		left[code[1]] = true
	}
	if len(left) == 0 {
		t.Fatal("no codes")
	}
	for line := range strings.Lines(rules) {
		cells := strings.Split(line, "|")
		if !strings.HasPrefix(line, "| `") || len(cells) != 6 {
			continue
		}
		code, severity, by := strings.Trim(cells[1], " `"), strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])
		covered := severity != "info" && (by != "API server" || code == "generated-hostname" || code == "statefulset-name")
		if covered != (said[code] != left[code]) {
			t.Errorf("%s: the policies say it: %v, they leave it: %v", code, said[code], left[code])
		}
		delete(left, code)
	}
	for code := range left {
		t.Errorf("%s is not a rule", code)
	}
}

// long is a pod whose FQDN has 65 characters with cluster.local.
const long = `{apiVersion: v1, kind: Pod, metadata: {name: cart-000000000000000000001, namespace: payments},
spec: {subdomain: checkout-v1, setHostnameAsFQDN: true, containers: [{name: c, image: registry.example/c}]}}`

// existing is such a pod that was created before the policies.
var existing = strings.Replace(long, "name: cart-000000000000000000001", "name: cart-000000000000000000002", 1)

// domain renders the policies for a domain and the policies that the annotation may name, and
// waits until the verdict on the long pod shows both.
func (p policyTest) domain(t *testing.T, domain string, overrides ...string) {
	t.Helper()
	probe := strings.Replace(long, "metadata: {", "metadata: {annotations: {dnsconfigurer.dev/policy: None}, ", 1)
	p.kubectl.Enforce(t, rendered(t, domain, []string{"10.96.0.10"}, overrides), probe, func(v apiserver.Verdict) bool {
		return strings.Contains(v.Refused, ".svc."+domain+" would be") &&
			strings.Contains(strings.Join(v.Warnings, "\n"), "is not an allowed override") != slices.Contains(overrides, "None")
	})
}

// unknownValues: without the domain no FQDN is too long, without the cluster DNS servers no
// nameserver is too many, and the other rules stay.
func (p policyTest) unknownValues(t *testing.T) {
	const fourth = `{apiVersion: v1, kind: Pod, metadata: {name: fourth, namespace: payments},
spec: {dnsConfig: {nameservers: [192.0.2.1, 192.0.2.2, 192.0.2.3], options: [{name: nodts}]},
  containers: [{name: c, image: registry.example/c}]}}`
	const tooMany = "would have 4 nameservers"
	if v := p.kubectl.DryRun(t.Context(), fourth); !strings.Contains(strings.Join(v.Warnings, "\n"), tooMany) {
		t.Errorf("with the servers: %+v", v)
	}
	p.kubectl.Enforce(t, rendered(t, "", nil, nil), long, func(v apiserver.Verdict) bool { return v.Refused == "" && len(v.Warnings) == 0 })
	p.kubectl.Enforce(t, rendered(t, "", nil, nil), fourth,
		func(v apiserver.Verdict) bool { return !strings.Contains(strings.Join(v.Warnings, "\n"), tooMany) })
	if v := p.kubectl.DryRun(t.Context(), fourth); !strings.Contains(strings.Join(v.Warnings, "\n"), "supports option \"nodts\"") {
		t.Errorf("without values: %+v", v)
	}
	p.domain(t, "cluster.local")
}

// leftAlone: the policies leave kube-system alone, updates of pods, and the subresource scale.
func (p policyTest) leftAlone(t *testing.T) {
	if _, stderr, err := p.kubectl.Run(t.Context(), existing, "label", "-f", "-", "touched=yes"); err != nil || stderr != "" {
		t.Errorf("a pod from before the policies: %v %s", err, stderr)
	}
	if v := p.kubectl.DryRun(t.Context(), strings.Replace(long, "payments", "kube-system", 1)); v.Refused != "" || len(v.Warnings) > 0 {
		t.Errorf("in kube-system: %+v", v)
	}
	const set = `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: cassandra-dc-east, namespace: payments},
   spec: {serviceName: cassandra-ring-01,
replicas: 1, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}},
  spec: {setHostnameAsFQDN: true, containers: [{name: c, image: registry.example/c}]}}}}`
	p.kubectl.MustRun(t, set, "create", "-f", "-")
	// Scale has no template: what it leads to is said when the set is applied.
	if _, stderr, err := p.kubectl.Run(t.Context(), "", "scale", "statefulset/cassandra-dc-east",
		"--replicas=1000", "--namespace=payments"); err != nil || stderr != "" {
		t.Errorf("scale: %v %s", err, stderr)
	}
	if _, stderr, err := p.kubectl.Run(t.Context(), "", "label", "statefulset/cassandra-dc-east",
		"touched=yes", "--namespace=payments"); err != nil ||
		!strings.Contains(stderr, "FQDN cassandra-dc-east-999.cassandra-ring-01.payments.svc.cluster.local would be") {
		t.Errorf("an update after it: %v %s", err, stderr)
	}
}

// generatedNames: of a pod the name is judged that the API server has made; of what makes
// pods, the longest that it will make.
func (p policyTest) generatedNames(t *testing.T) {
	v := p.kubectl.DryRun(t.Context(), strings.Replace(long, "name: cart-000000000000000000001", "generateName: cart-000000000000000-", 1))
	if !strings.Contains(v.Refused, denied+"spec.setHostnameAsFQDN: FQDN cart-000000000000000-") ||
		!strings.Contains(v.Refused, "would be 65 characters") {
		t.Errorf("a pod: %+v", v)
	}
	v = p.kubectl.DryRun(t.Context(),
		`{apiVersion: batch/v1, kind: Job, metadata: {generateName: cart-000000000-, namespace: payments}, spec: {template: {spec:
{restartPolicy: Never, subdomain: checkout-v1, setHostnameAsFQDN: true, containers: [{name: c, image: registry.example/c}]}}}}`)
	if v.Refused != "" ||
		!strings.Contains(strings.Join(v.Warnings, "\n"), "-xxxxx.checkout-v1.payments.svc.cluster.local would be 65 characters") {
		t.Errorf("a Job: %+v", v)
	}
}
