// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

const (
	clusterFile = "search shop.svc.cluster.local svc.cluster.local cluster.local corp.example\nnameserver 10.96.0.10\noptions ndots:5\n"
	nodeFile    = "nameserver 192.0.2.1\nsearch corp.example\n"
)

func kubeletOf(node, domain string, dns ...string) Kubelet {
	return Kubelet{Node: node, Config: kube.KubeletConfiguration{ClusterDNS: dns, ClusterDomain: domain}}
}

// permit adds what is read with permission only, all of it healthy: two kubelets, and what a container in the pod
// shop/db-0 finds.
func permit(s *Snapshot) {
	s.Probes = append(s.Probes, healthyMeans()...)
	s.Kubelets = []Kubelet{kubeletOf("a", "cluster.local", "10.96.0.10"), kubeletOf("b", "Cluster.local.", "10.96.0.10")}
	s.Clients = []ClientSource{{}}
	withFile(s, "shop/db-0", clusterFile)
}

// TestRun_Clients: which pods send most queries is an info, with names on request only. A client that sends most of
// them is a warning if the servers refuse some.
func TestRun_Clients(t *testing.T) {
	client := func(address string, queries, failed, absent uint64) dnsserver.Client {
		return dnsserver.Client{Address: netip.MustParseAddr(address),
			ClientCounts: dnsserver.ClientCounts{Queries: queries, Failed: failed, AbsentService: absent}}
	}
	const web, db, other, cache = "10.244.1.7", "10.244.2.7", "192.0.2.7", "10.244.1.2"
	for _, tt := range []struct {
		name         string
		web, refused uint64
		names        bool
		find, wanted string // the severity, and the evidence
	}{
		{"nothing is refused", 90_000, 0, false, "info", "Pod shop/web-1: 90000 queries, 0 failed, 10 NXDOMAIN"},
		{"names are wanted", 90_000, 0, true, "info", "failed, 10 NXDOMAIN, most for a.example., b.example.\n"},
		{"few are refused", 90_000, 90, false, "info", "Pod shop/db-0: 5000 queries, 20 failed, 0 NXDOMAIN"},
		{"no client sends most", 4_000, 900, false, "info", "address 192.0.2.7: 3000 queries, 0 failed, 0 NXDOMAIN"},
		{"a client floods the servers", 90_000, 900, false, "warning", "Pod shop/web-1: 90000 queries"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := snapshotOf(t, healthy(t))
			for i := range s.Pods {
				if address := map[string]string{"web-1": web, "db-0": db}[s.Pods[i].Name]; address != "" {
					s.Pods[i].Status.PodIPs = []corev1.PodIP{{IP: address}}
				}
			}
			report := dnsserver.ClientReport{
				Clients: []dnsserver.Client{client(web, tt.web/2, 0, 10), client(db, 5000, 20, 0), client(cache, 1e6, 0, 0)},
				Names: []dnsserver.ClientName{{Address: netip.MustParseAddr(web), Name: "b.example.", Queries: 5},
					{Address: netip.MustParseAddr(web), Name: "a.example.", Queries: 7}}}
			s.Names = tt.names
			s.Clients = []ClientSource{{Report: report}, {Address: netip.MustParseAddr(cache), Refused: tt.refused,
				Report: dnsserver.ClientReport{Clients: []dnsserver.Client{client(web, tt.web/2, 0, 0), client(other, 3000, 0, 0)}}}}
			r := Run(t.Context(), s)
			if len(r.Findings) != 1 || r.Findings[0].Code != "client-queries" || r.Findings[0].Severity != tt.find {
				t.Fatalf("want one %s: %+v", tt.find, r.Findings)
			}
			text := strings.Join(r.Findings[0].Evidence, "\n") + "\n"
			if !strings.Contains(text, tt.wanted) || strings.Contains(text, cache) || strings.Contains(text, "example") != tt.names {
				t.Errorf("%s, want %s", text, tt.wanted)
			}
		})
	}
}

// withFile sets the pod of the scope and its file.
func withFile(s *Snapshot, pod, text string) {
	s.Scope.Namespace, s.Scope.PodName, _ = strings.Cut(pod, "/")
	s.PodFile = &text
}

func TestRun_Kubelets(t *testing.T) {
	const local, address = "cluster.local", "10.96.0.10"
	for _, tt := range []struct {
		name, find, evidence string
		kubelets             []Kubelet
	}{
		{"one of three has another address", "kubelet-config-drift", "Node b: clusterDNS [10.0.0.10]",
			[]Kubelet{kubeletOf("a", local, address), kubeletOf("b", local, "10.0.0.10"), kubeletOf("c", local, address)}},
		{"one of three has another domain", "kubelet-config-drift", `clusterDomain "k8s.example"`,
			[]Kubelet{kubeletOf("a", local, address), kubeletOf("b", "k8s.example", address), kubeletOf("c", local, address)}},
		{"all have another address than the ConfigMap", "dns-service-address",
			"2 of 2 kubelets run with other DNS settings (kubelet-config-drift)",
			[]Kubelet{kubeletOf("a", local, "10.96.0.11"), kubeletOf("b", local, "10.96.0.11")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := snapshotOf(t, healthy(t))
			s.Kubelets = tt.kubelets
			checkFault(t, Run(t.Context(), s), []string{tt.find}, tt.evidence)
		})
	}
}

// TestRun_KubeletsPart: without all kubelets, equal ones do not mean that all are equal.
func TestRun_KubeletsPart(t *testing.T) {
	s := snapshotOf(t, healthy(t))
	permit(s)
	s.Unread[Kubelets] = "node c: timeout"
	r := Run(t.Context(), s)
	if len(r.Findings) > 0 || len(r.NotChecked) != 1 || len(r.NotChecked[0].Checks) != 1 || r.NotChecked[0].Why != "node c: timeout" {
		t.Errorf("%+v", r)
	}
}

// TestRun_KubeletsWithoutConfigMap: in a cluster without kubelet-config, the kubelets that run
// are what the other checks need.
func TestRun_KubeletsWithoutConfigMap(t *testing.T) {
	objects := healthy(t)
	delete(objects, "ConfigMap kube-system/kubelet-config")
	s := snapshotOf(t, objects)
	if r := Run(t.Context(), s); len(r.NotChecked) != 1 || !strings.Contains(r.NotChecked[0].Why, "--kubelets") {
		t.Errorf("%+v", r.NotChecked)
	}
	s.Kubelets = []Kubelet{kubeletOf("a", "cluster.local", "10.0.0.10")}
	checkFault(t, Run(t.Context(), s), []string{"dns-service-address"}, "Node a, clusterDNS: 10.0.0.10")
}

func TestRun_PodFile(t *testing.T) {
	tests := []struct {
		name, pod, text string
		find, evidence  string // "": none
	}{
		{"the cluster's file", "shop/db-0", clusterFile, "", ""},
		{"without the node's domains", "shop/db-0", strings.Replace(clusterFile, " corp.example", "", 1), "", ""},
		{"another cluster DNS", "shop/db-0", strings.Replace(clusterFile, "10.96.0.10", "10.0.0.10", 1),
			"pod-file", "nameservers: 10.0.0.10"},
		{"the node's file", "shop/db-0", nodeFile + "options ndots:5\n", "pod-file", "nameservers of a new pod: 10.96.0.10"},
		{"an empty file", "shop/db-0", "", "pod-file", "nameservers: none"},
		{"another domain", "shop/db-0", strings.ReplaceAll(clusterFile, "cluster.local", "k8s.example"),
			"pod-file", "search of a new pod: shop.svc.cluster.local svc.cluster.local cluster.local, and those of the node"},
		{"another order", "shop/db-0", "search cluster.local shop.svc.cluster.local svc.cluster.local\n" +
			"nameserver 10.96.0.10\noptions ndots:5\n", "pod-file", "search: cluster.local"},
		{"other options", "shop/db-0", strings.Replace(clusterFile, "ndots:5", "ndots:2", 1), "pod-file", "options of a new pod: ndots:5"},
		{"a file of dnsconfigurer", "shop/db-0", nodeFile + "# dnsconfigurer: sha256 0\n", "", ""},
		{"the file of a node", "kube-system/node-cache-a", nodeFile, "", ""},
		{"a pod that is gone", "shop/gone", "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := snapshotOf(t, healthy(t))
			withFile(s, tt.pod, tt.text)
			checkFault(t, Run(t.Context(), s), strings.Fields(tt.find), tt.evidence)
		})
	}
}

// TestRun_PodFileOfKubelet: a pod is compared with the kubelet of its node.
func TestRun_PodFileOfKubelet(t *testing.T) {
	s := snapshotOf(t, healthy(t))
	permit(s)
	i := 0
	for s.Pods[i].Name != "db-0" {
		i++
	}
	s.Pods[i].Spec.NodeName = "b"
	s.Kubelets[1].Config.ClusterDNS = []string{"169.254.20.10"}
	withFile(s, "shop/db-0", strings.Replace(clusterFile, "10.96.0.10", "169.254.20.10", 1))
	for _, f := range Run(t.Context(), s).Findings {
		if f.Code == "pod-file" {
			t.Errorf("%+v", f)
		}
	}
}

// TestRun_HostSuffixes: a doctor that runs in a pod knows the search domains of a node, which the cluster DNS has to append
// for pods with autopath.
func TestRun_HostSuffixes(t *testing.T) {
	const unknown = "the search domains of nodes are not known"
	for _, tt := range []struct {
		name, config, ownFile string
		find                  string // what is missing, or not checked; "": nothing
	}{
		{"none", "", clusterFile, "hostSuffixes: []"},
		{"others", "hostSuffixes: [site.example]", clusterFile, "hostSuffixes: [site.example]"},
		{"the same", "hostSuffixes: [site.example, Corp.Example.]", clusterFile, ""},
		{"nodes without search domains", "", strings.Replace(clusterFile, " corp.example", "", 1), ""},
		{"none, outside of a pod", "", nodeFile, unknown},
		{"some, outside of a pod", "hostSuffixes: [site.example]", nodeFile, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := healthy(t)
			objects["ConfigMap kube-system/coredns"]["data"].(map[string]any)["dns.yaml"] =
				"apiVersion: dnsconfigurer.dev/v1alpha1\nkind: DNSConfiguration\n" + tt.config
			s := snapshotOf(t, objects)
			s.OwnFile = tt.ownFile
			r := Run(t.Context(), s)
			if len(r.Findings) > 0 || notChecked(r, "nodecache-settings") != "" {
				t.Errorf("without autopath: %+v, not checked: %+v", r.Findings, r.NotChecked)
			}
			i := slices.IndexFunc(s.Pods, func(p corev1.Pod) bool { return p.Name == "web-1" })
			s.Pods[i].Annotations = map[string]string{policy.OverrideAnnotation: "clusterfirstwithautopath"}
			r = Run(t.Context(), s)
			if tt.find == "" || tt.find == unknown {
				got := notChecked(r, "nodecache-settings")
				if len(r.Findings) > 0 || !strings.HasPrefix(got, tt.find) || got != "" && tt.find == "" {
					t.Errorf("%+v, not checked: %q", r.Findings, got)
				}
				return
			}
			checkFault(t, r, []string{"nodecache-settings"}, tt.find)
		})
	}
}
