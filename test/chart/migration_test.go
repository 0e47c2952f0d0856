// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/pages"
)

const (
	system = "kube-system"

	kubeadmUpgrade = "kubeadm upgrade" // a step
)

// kubeadm applies CoreDNS as "kubeadm init" and "kubeadm upgrade" do.
func (c *cluster) kubeadm() {
	c.Helper()
	apiserver.Kubeadm(c, "addon", "coredns", "--kubeconfig", c.api.KubeconfigFile())
}

// nodeLocal returns the manifest of NodeLocal DNSCache with the values that its documentation
// replaces; the pods replace the others.
func nodeLocal(t *testing.T) string {
	t.Helper()
	dir := must.Get(exec.Command("go", "-C", "../cluster", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output())(t)
	text := must.Get(os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "cluster/addons/dns/nodelocaldns/nodelocaldns.yaml")))(t)
	return strings.NewReplacer("__PILLAR__LOCAL__DNS__", "169.254.20.10", "__PILLAR__DNS__DOMAIN__", "cluster.local",
		"__PILLAR__DNS__SERVER__", "10.96.0.10").Replace(string(text))
}

// migration is a way from CoreDNS to the cluster DNS and back, by commands that leave a working
// cluster behind.
type migration struct {
	name  string
	steps []string
}

// documented returns the commands of docs/dns.md in their order.
func documented(t *testing.T) (m migration) {
	t.Helper()
	blocks := must.Get(pages.Read("../.."))(t)
	m.name = "docs/dns.md"
	page := must.Get(os.ReadFile("../../" + m.name))(t)
	clusterDNS, _, _ := strings.Cut(string(page), "\n## The node cache\n")
	for _, b := range blocks {
		if b.Page == m.name && b.Note == "run by test/chart" && b.Line < strings.Count(clusterDNS, "\n") {
			m.steps = append(m.steps, b.Text)
		}
	}
	return m
}

// testMigration replaces kubeadm's CoreDNS by the cluster DNS and returns, in a cluster with
// the NodeLocal DNSCache of Kubernetes. After each step each Service has pods that listen on its ports. The
// cluster has no pods: test/e2e runs those of the chart.
func testMigration(c *cluster) {
	c.kubeadm()
	c.run(nodeLocal(c.T), "apply", "-f", "-")
	c.step("kubeadm and NodeLocal DNSCache")

	const scale = "kubectl -n kube-system scale deployment coredns --replicas "
	const chart = " dnsconfigurer bin/release/dnsconfigurer-*.tgz -n kube-system "
	const rendered = "helm template" + chart + "| kubectl "
	const coreDNSPods, newPods = `{"k8s-app": "kube-dns"}`, `{"app.kubernetes.io/component": "dns"}`
	byName, byNumber := patchServices(coreDNSPods, `"dns"`, `"dns-tcp"`), patchServices(coreDNSPods, "53", "53")
	for _, m := range []migration{
		{"helm install", []string{"helm install" + chart, kubeadmUpgrade, scale + "0", kubeadmUpgrade,
			"helm upgrade" + chart + "--set dns.replicas=3",
			scale + "2", "helm uninstall dnsconfigurer -n kube-system"}},
		{"helm template, and Services with names", []string{byName, rendered + "apply -f -", scale + "0", scale + "2",
			rendered + "delete -f -", byNumber}},
		{"without port 53", []string{"helm install" + chart + "--set dns.port53=false", patchServices(newPods, `"dns"`, `"dns-tcp"`),
			scale + "0", scale + "2", byNumber, "helm uninstall dnsconfigurer -n kube-system"}},
		documented(c.T),
	} {
		c.migrate(m)
	}
}

// patchServices returns commands that change the selector and the target ports of the Services of
// kubeadm and NodeLocal DNSCache.
func patchServices(selector, udp, tcp string) string {
	return fmt.Sprintf("kubectl -n kube-system patch service kube-dns kube-dns-upstream --type json --patch '["+
		`{"op": "replace", "path": "/spec/selector", "value": %s}, {"op": "replace", "path": "/spec/ports/0/targetPort", "value": %s}, `+
		`{"op": "replace", "path": "/spec/ports/1/targetPort", "value": %s}]'`, selector, udp, tcp)
}

// migrate runs the steps of a migration.
func (c *cluster) migrate(m migration) {
	dir, env := newWorkplace(c)
	for _, step := range m.steps {
		if step == kubeadmUpgrade {
			c.kubeadm()
		} else if err := runBlock(c.T, dir, env, withoutPods(step)); err != nil {
			c.Errorf("%s: %v", m.name, err)
			return
		}
		c.step(m.name + ": " + step)
	}
}

// getAll returns the objects of a kind in kube-system.
func getAll[T any](c *cluster, kind string) []T {
	c.Helper()
	var list struct{ Items []T }
	must.Succeed(c, yaml.Unmarshal([]byte(c.run("", "get", kind, "--namespace="+system, "--output=json")), &list))
	return list.Items
}

// step checks after a step that each Service of the cluster DNS leads to pods of a Deployment, and each of its
// ports to one on which these listen.
func (c *cluster) step(name string) {
	c.Helper()
	served := map[string]int{"kube-dns": 0, "kube-dns-upstream": 0}
	deployments := getAll[appsv1.Deployment](c, "deployments")
	for _, s := range getAll[corev1.Service](c, "services") {
		for _, d := range deployments {
			if *d.Spec.Replicas == 0 || !selects(s.Spec.Selector, d.Spec.Template.Labels) {
				continue
			}
			served[s.Name]++
			ports := c.listens(d)
			for _, p := range s.Spec.Ports {
				if target := fmt.Sprintf("%s %s", p.Protocol, &p.TargetPort); !slices.Contains(ports, target) {
					c.Errorf("%s: Service %s, port %s: pods of %s do not listen on %s, but on %q",
						name, s.Name, p.Name, d.Name, target, ports)
				}
			}
		}
	}
	for service, n := range served {
		if n == 0 {
			c.Errorf("%s: Service %s leads to no pods", name, service)
		}
	}
}

func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return len(selector) > 0
}

// configured matches the addresses in a DNSConfiguration.
var configured = regexp.MustCompile(`\[::\]:(\d+)`)

// listens returns the ports of the pods of a Deployment by number and by name, such as "UDP 53" and "UDP dns". Those of
// the cluster DNS are also in its configuration.
func (c *cluster) listens(d appsv1.Deployment) (ports []string) {
	c.Helper()
	var open []string
	for _, o := range getAll[corev1.ConfigMap](c, "configmaps") {
		if o.Name == d.Name {
			for _, m := range configured.FindAllStringSubmatch(o.Data["dns.yaml"], -1) {
				open = append(open, m[1])
			}
		}
	}
	for _, p := range d.Spec.Template.Spec.Containers[0].Ports {
		if number := fmt.Sprint(p.ContainerPort); d.Name == "coredns" || slices.Contains(open, number) {
			ports = append(ports, fmt.Sprintf("%s %s", p.Protocol, number), fmt.Sprintf("%s %s", p.Protocol, p.Name))
		}
	}
	return ports
}
