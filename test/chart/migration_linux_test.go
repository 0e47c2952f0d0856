// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/netns"
	"github.com/dnsconfigurer/dnsconfigurer/test/pages"
)

const (
	// kubernetesVariable and programVariable have the directory of the module k8s.io/kubernetes and
	// the path of dnsconfigurer, in the network namespace.
	kubernetesVariable = "DNSCONFIGURER_TEST_KUBERNETES"
	programVariable    = "DNSCONFIGURER_TEST_PROGRAM"

	kubeadmUpgrade = "kubeadm upgrade" // a step

	noServer = "192.0.2.53" // the upstream server of the pods, which does not exist
)

// kubeadm applies CoreDNS as "kubeadm init" and "kubeadm upgrade" do.
func (n *node) kubeadm() {
	n.Helper()
	cmd := exec.Command(apiserver.Kubernetes(n, "kubeadm"), "init", "phase", "addon", "coredns", "--kubeconfig", n.kubeconfig,
		"--kubernetes-version", "v1.36.0", "--service-cidr", apiserver.ServiceRange4)
	if out, err := cmd.CombinedOutput(); err != nil {
		n.Fatalf("%v\n%s", err, out)
	}
}

// nodeLocal returns the manifest of NodeLocal DNSCache with the values that its documentation
// replaces; the pods replace the others.
func nodeLocal(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(os.Getenv(kubernetesVariable), "cluster/addons/dns/nodelocaldns/nodelocaldns.yaml"))
	if err != nil {
		t.Fatal(err)
	}
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
	blocks, err := pages.Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	m.name = "docs/dns.md"
	page, err := os.ReadFile("../../" + m.name)
	if err != nil {
		t.Fatal(err)
	}
	clusterDNS, _, _ := strings.Cut(string(page), "\n## The node cache\n")
	for _, b := range blocks {
		if b.Page == m.name && b.Note == "run by test/chart" && b.Line < strings.Count(clusterDNS, "\n") {
			m.steps = append(m.steps, b.Text)
		}
	}
	return m
}

// TestCluster_Migration replaces kubeadm's CoreDNS by the cluster DNS and returns, in a cluster with
// the NodeLocal DNSCache of Kubernetes. After each step each endpoint of each Service replies.
func TestCluster_Migration(t *testing.T) {
	if os.Getenv(programVariable) == "" {
		apiserver.Install(t, "kube-controller-manager", "kubeadm")
		list := exec.Command("go", "-C", "../cluster", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
		dir, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv(kubernetesVariable, strings.TrimSpace(string(dir)))
		t.Setenv("CGO_ENABLED", "0") // the root directories of the pods have no libraries
		t.Setenv(programVariable, buildProgram(t))
	}
	if !netns.EnterSerial(t) {
		return
	}
	netns.Run(t, "ip link set lo up", // kubeadm requires a default route
		"ip link add uplink type veth peer name outside", "ip address add 192.0.2.1/24 dev uplink", "ip link set uplink up",
		"ip link set outside up", "ip route add default via 192.0.2.2")
	c := newCluster(t, "--bind-address=0.0.0.0") // for the pods
	c.server.StartControllers(t, "deployment-controller", "replicaset-controller", "endpointslice-controller",
		"garbage-collector-controller")
	n := newNode(c, map[string]string{"coredns": apiserver.CoreDNS(t), "dnsconfigurer": os.Getenv(programVariable)})
	n.kubeadm()
	c.run(nodeLocal(t), "apply", "-f", "-")
	n.step("kubeadm and NodeLocal DNSCache")

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
		documented(t),
	} {
		n.migrate(m)
	}
	n.checkOtherPort("helm install" + chart)
}

// patchServices returns commands that change the selector and the target ports of the Services of
// kubeadm and NodeLocal DNSCache.
func patchServices(selector, udp, tcp string) string {
	return fmt.Sprintf("kubectl -n kube-system patch service kube-dns kube-dns-upstream --type json --patch '["+
		`{"op": "replace", "path": "/spec/selector", "value": %s}, {"op": "replace", "path": "/spec/ports/0/targetPort", "value": %s}, `+
		`{"op": "replace", "path": "/spec/ports/1/targetPort", "value": %s}]'`, selector, udp, tcp)
}

// checkOtherPort has a Service that leads to a port on which the pods do not listen: the chart is not
// installed, and doctor finds the Service.
func (n *node) checkOtherPort(install string) {
	const name = "kube-system/other"
	n.run(`{apiVersion: v1, kind: Service, metadata: {namespace: kube-system, name: other}, spec: {selector: {k8s-app: kube-dns},
		ports: [{port: 53, protocol: UDP, targetPort: 5353}]}}`, "create", "-f", "-")
	dir, env := newWorkplace(n.cluster)
	err := runBlock(n.T, dir, env, install)
	if err == nil || !strings.Contains(err.Error(), "the Service "+name+" selects the pods and has targetPort 5353") {
		n.Errorf("helm install with targetPort 5353: %v", err)
	}
	doctor := exec.Command(os.Getenv(programVariable), "doctor", "--kubeconfig", n.kubeconfig, "-o", "json")
	out, err := doctor.Output()
	var result struct {
		Findings []struct{ Code, Object, Message string }
	}
	if err := json.Unmarshal(out, &result); err != nil {
		n.Fatalf("%v\n%s", err, out)
	}
	var found []string
	for _, f := range result.Findings {
		if f.Code == "dns-service-port" {
			found = append(found, f.Object+": "+f.Message)
		}
	}
	if want := []string{"Service " + name + ": 53/UDP has the targetPort 5353, which 2 of 2 pods do not have"}; !slices.Equal(found, want) {
		n.Errorf("doctor finds %q (%v), want %q", found, err, want)
	}
}

// migrate runs the steps of a migration.
func (n *node) migrate(m migration) {
	dir, env := newWorkplace(n.cluster)
	for _, step := range m.steps {
		if step == kubeadmUpgrade {
			n.kubeadm()
			n.step(m.name + ": " + step)
			continue
		}
		if err := runBlock(n.T, dir, env, withoutPods(step)); err != nil {
			n.Errorf("%s: %v", m.name, err)
			return
		}
		n.step(m.name + ": " + step)
	}
}

// step checks the endpoints after a step.
func (n *node) step(name string) {
	n.settle()
	problems, replies := n.unreachable()
	n.Logf("%d replies after %s", replies, name)
	if len(problems) > 0 || replies < 10 {
		n.Errorf("%d replies, failed after %s:\n%s", replies, name, strings.Join(problems, "\n"))
	}
}
