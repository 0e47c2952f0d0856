// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnsfaults"
)

// TestRun_HealthyVariants changes the healthy cluster to others that are healthy, too.
func TestRun_HealthyVariants(t *testing.T) {
	const corefile = `ConfigMap kube-system/coredns: {data: {Corefile: "`
	tests := map[string]string{
		"one node, one replica": `
merge: {EndpointSlice kube-system/kube-dns-1: {endpoints: [{addresses: [10.244.1.2], conditions: {ready: true},
  targetRef: {kind: Pod, name: coredns-1}}]}}
delete: [Node b, Pod kube-system/coredns-2, Pod kube-system/node-cache-b]`,
		"a Service of a Deployment that is scaled to 0": `
merge: {Service shop/web: {spec: {selector: {app: idle}}}}
create: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: idle, namespace: shop},
  spec: {replicas: 0, selector: {matchLabels: {app: idle}}, template: {metadata: {labels: {app: idle, v: "1"}}}}}]`,
		"an admission policy of another project without a binding": `
create: [{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: example}}]`,
		"endpoints without pods": `
merge: {EndpointSlice kube-system/kube-dns-1: {endpoints: [{addresses: [10.244.1.2]}, {addresses: [10.244.2.2]}]}}`,
		"a NodeLocal DNSCache of Kubernetes": `
create:
- apiVersion: v1
  kind: Service
  metadata: {name: kube-dns-upstream, namespace: kube-system, labels: {k8s-app: kube-dns}}
  spec:
    selector: {k8s-app: kube-dns}
    ports: [{name: dns, port: 53, protocol: UDP, targetPort: 53}, {name: dns-tcp, port: 53, protocol: TCP, targetPort: 53}]`,
		"Services without the defaults of the API server, and with names": `
merge: {Service kube-system/kube-dns: {spec: {ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, targetPort: dns-tcp},
  {name: metrics, port: 9153}]}}}`,
		"a Service of other pods": `
create: [{apiVersion: v1, kind: Service, metadata: {name: x, namespace: kube-system},
  spec: {selector: {k8s-app: x}, ports: [{name: dns, port: 53, protocol: UDP, targetPort: 5353}]}},
  {apiVersion: v1, kind: Pod, metadata: {name: x, namespace: kube-system, labels: {k8s-app: x}},
    status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}]`,
		"the networks of the cluster in a DNSConfiguration": `
merge: {ConfigMap kube-system/coredns: {data: {dns.yaml: "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: DNSConfiguration\nreverseCIDRs: [10.96.0.0/12]\n"}}}`,
		"the networks of the cluster in a flag": `
merge: {ConfigMap kube-system/coredns: {data: {dns.yaml: "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: DNSConfiguration\n"}},
  Pod kube-system/coredns-1: {spec: {containers: [{name: dns, args: [dns, "--reverse-cidr=10.96.0.0/12"],
  resources: {requests: {memory: 70Mi}, limits: {memory: 170Mi}}}]}}}`,
		"both families": `
merge: {Service kube-system/kube-dns: {spec: {clusterIPs: [10.96.0.10, "fd00::10"]}}}
create:
- apiVersion: discovery.k8s.io/v1
  kind: EndpointSlice
  metadata: {name: kube-dns-2, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
  addressType: IPv6
  ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
  endpoints: [{addresses: ["fd00:1::2"], targetRef: {kind: Pod, name: coredns-1}}]`,
		"a Corefile with imports": `
merge: {` + corefile + `.:53 {\n  import custom/*.override\n  kubernetes cluster.local\n}\nimport custom/*.server\n"}}}`,
		"a stub domain, and a block for the cluster": `
merge: {` + corefile + `.:53 {\n  errors\n  health\n  ready\n  cache 30\n  forward . 192.0.2.53\n  ` +
			`reload\n}\ncluster.local:53 10.0.0.0/8 {\n  kubernetes\n}\n` +
			`corp.example:53 {\n  forward . 192.0.2.54:5353 tls://192.0.2.55%dns.example [2001:db8::53]:53\n}\n"}}}`,
		"the same zone on two ports and addresses": `
merge: {` + corefile + `.:53 {\n  bind 10.0.0.1\n  errors\n  health\n  ready\n  cache\n  reload\n  ` +
			`kubernetes cluster.local\n  forward . 192.0.2.53\n}\n.:53 {\n  bind 10.0.0.2\n}\n.:5353 {\n}\n"}}}`,
		"a plugin of another build": `
merge: {` + corefile + `.:53 {\n  errors\n  health\n  ready\n  cache 30\n  reload\n  kubernetes ` +
			`cluster.local\n  forward . 192.0.2.53\n  fanoutwithalongname . 192.0.2.1\n}\n"}}}`,
		"a node cache with a link-local address": `
merge:
  ConfigMap kube-system/kubelet-config: {data: {kubelet: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDNS: [169.254.20.10]\nclusterDomain: cluster.local\n"}}
  NetworkPolicy shop/egress: {spec: {egress: [{to: [{ipBlock: {cidr: 169.254.20.10/32}}], ports: [{port: 53,
    protocol: UDP}, {port: 53, protocol: TCP}]}]}}`,
		"a node on which the node cache does not run": `
merge: {DaemonSet kube-system/dnsconfigurer-node-cache: {spec: {template: {spec: {nodeSelector: {cache: "true"}}}}}}
delete: [Pod kube-system/node-cache-a]`,
		"a tainted node": `
merge: {Node b: {spec: {taints: [{key: gpu, effect: NoSchedule}]}}}
delete: [Pod kube-system/node-cache-b]`,
		"NetworkPolicies with a named port": `
merge: {NetworkPolicy shop/egress: {spec: {egress: [{ports: [{port: dns, protocol: UDP}, {port: dns-tcp, protocol: TCP}]}]}}}`,
		"NetworkPolicies with a range of ports": `
merge: {NetworkPolicy shop/egress: {spec: {egress: [{ports: [{port: 1, endPort: 1024, protocol: UDP}, {protocol: TCP}]}]}}}`,
		"NetworkPolicies that add up": `
merge: {NetworkPolicy shop/egress: {spec: {egress: null}}}
create: [{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: dns, namespace: shop},
  spec: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.96.0.0/16]}}]}]}}]`,
		"NetworkPolicies of the cluster DNS": `
create: [{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: dns, namespace: kube-system},
  spec: {podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{namespaceSelector: {}}], ports: [{port: 53,
     protocol: UDP}, {port: 53, protocol: TCP}]}]}}]`,
		"pods that have ended": `
create: [{apiVersion: v1, kind: Pod, metadata: {name: job, namespace: shop}, spec: {dnsPolicy: None}, status: {phase: Succeeded}}]`,
		"a headless Service that publishes its pods": `
merge: {Service shop/db: {spec: {publishNotReadyAddresses: true}}, Pod shop/db-0: {status: {conditions: []}}}`,
		"an alias of a Service of the cluster": `
merge: {Service shop/payments: {spec: {externalName: web.shop.svc.cluster.local.}}}`,
		"a webhook for other objects": `
create: [{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration,
  metadata: {name: x}, webhooks: [{name: x, clientConfig: {service: {name: x, namespace: x}},
    rules: [{apiGroups: [apps], operations: [CREATE], resources: ["*"]}]}]}]`,
		"a webhook outside the cluster": `
create: [{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration,
  metadata: {name: x}, webhooks: [{name: x, clientConfig: {url: "https://x"}, rules: [{apiGroups: [""],
    operations: ["*"], resources: [pods]}]}]}]`,
		"images by digest": `
create: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: x, namespace: x},
  spec: {template: {spec: {containers: [{name: x, image: "registry.example:5000/dnsconfigurer:v0.1.0@sha256:0"},
     {name: other, image: "registry.example:5000/other"}]}}}}]`,
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			var f dnsfaults.Fault
			if err := yaml.UnmarshalStrict([]byte(change), &f); err != nil {
				t.Fatal(err)
			}
			objects, err := f.Apply(healthy(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range Run(t.Context(), snapshotOf(t, objects)).Findings {
				t.Errorf("%+v", found)
			}
		})
	}
}

// TestRun_Installers: clusters as installers and providers create them have no finding above info.
func TestRun_Installers(t *testing.T) {
	installers, err := dnsfaults.Installers()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range installers {
		t.Run(f.Name, func(t *testing.T) {
			objects, err := f.Apply(healthy(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range Run(t.Context(), snapshotOf(t, objects)).Findings {
				if found.Severity != string(policy.SeverityInfo) {
					t.Errorf("%+v", found)
				}
			}
		})
	}
}

// TestRun_NextNamespace: the next command is about the namespace of the cluster DNS, which is not always kube-system.
func TestRun_NextNamespace(t *testing.T) {
	installers, err := dnsfaults.Installers()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(installers, func(f dnsfaults.Fault) bool { return f.Name == "OpenShift" })
	objects, err := installers[i].Apply(healthy(t))
	if err != nil {
		t.Fatal(err)
	}
	s := snapshotOf(t, objects)
	s.Probes = append(s.Probes, v1alpha1.DoctorProbe{Server: "172.30.0.10:53", Role: RoleService, Protocol: UDP, Name: apiName, Type: "A",
		Error: "timeout"})
	found := Run(t.Context(), s).Findings
	if len(found) != 1 || found[0].Code != "probe-no-reply" || !strings.HasPrefix(found[0].Next, "kubectl -n openshift-dns get pods") {
		t.Errorf("%+v", found)
	}
}

// TestRun_ManyPolicies: one NetworkPolicy that permits egress is enough, however many others permit none.
func TestRun_ManyPolicies(t *testing.T) {
	for last, want := range map[string][]string{"egress: [{}]": nil, "egress: []": {"network-policy"}} {
		s := snapshotOf(t, healthy(t))
		for i := range maxLines + 2 {
			rule := "egress: []"
			if i == maxLines+1 {
				rule = last
			}
			var o dnsfaults.Object
			text := fmt.Sprintf("{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: n%02d, namespace: kube-system}, "+
				"spec: {podSelector: {matchLabels: {k8s-app: kube-dns}}, policyTypes: [Egress], %s}}", i, rule)
			if err := yaml.Unmarshal([]byte(text), &o); err != nil {
				t.Fatal(err)
			}
			addObject(t, s, o)
		}
		if got := codes(Run(t.Context(), s)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", last, got, want)
		}
	}
}
