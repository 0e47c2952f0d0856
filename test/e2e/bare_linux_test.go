// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// observation is what the processes of a pod see, and what its C libraries resolve names to.
type observation struct {
	View    view
	Hosts   string            // /etc/hosts, with POD for the addresses of the pod
	Lookups map[string]string // by library and name
}

// comparedNames are resolved in addition to those of lookups.
var comparedNames = []string{"db", "db-0.db", "db-1.db.shop.svc.cluster.local", "no-pod.db",
	"kubernetes.default", "nothing.default.svc.cluster.local"}

// barePods returns those of policyPods that docs/compatibility.md does not exempt: D5 and D6 are
// about autopath.
func barePods() map[string]policyPod {
	pods := policyPods()
	maps.DeleteFunc(pods, func(_ string, p policyPod) bool { return p.autopath != "" || p.spec.DNSPolicy == kepPolicy })
	return pods
}

var podAddress = regexp.MustCompile(`(?m)^(10\.244\.\d+\.\d+|fd00:244::[0-9a-f:]+)\t`)

// observe returns what barePods see, by name. Those with a nameserver that does not exist look up
// no names.
func (c *cluster) observe(t *testing.T) map[string]observation {
	t.Helper()
	names := slices.Clone(comparedNames)
	for _, l := range lookups {
		names = append(names, l.name)
	}
	all := map[string]observation{}
	for name, pod := range barePods() {
		o := observation{View: c.view(t, name)}
		config := resolvconf.Parse(pod.want.ResolvConf).Config()
		if got := resolvconf.Parse(o.View.ResolvConf).Config(); config.Equal(got) {
			o.View.ResolvConf = pod.want.ResolvConf // D4: the kubelet writes options in random order
		}
		if text := o.View.ResolvConf; text == clusterText || text == hostText {
			o.Lookups = c.lookUpAll(t, name, names...)
		}
		o.Hosts = podAddress.ReplaceAllString(c.exec(t, name, "/bin/busybox", "cat", "/etc/hosts"), "POD\t")
		all[name] = o
	}
	return all
}

// coreDNSConfig is the Corefile of kubeadm, without the plugins that do not affect replies.
const coreDNSConfig = `.:1053 {
	kubernetes cluster.local in-addr.arpa ip6.arpa {
		kubeconfig ` + adminIdentity + `
		pods insecure
		fallthrough in-addr.arpa ip6.arpa
		ttl 30
	}
	forward . ` + outside + `
	cache 30
	loadbalance
}
`

// coreDNSService leads the address of the cluster DNS to a server of the node.
const coreDNSService = `apiVersion: v1
kind: Service
metadata: {namespace: kube-system, name: kube-dns}
spec:
  clusterIP: ` + dnsIP + `
  clusterIPs: [` + dnsIP + `, "` + dnsIP6 + `"]
  ipFamilyPolicy: RequireDualStack
  ports: [{name: dns, protocol: UDP, port: 53, targetPort: 1053}, {name: dns-tcp, protocol: TCP, port: 53, targetPort: 1053}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: kube-system, name: coredns-4, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
endpoints: [{addresses: [` + nodeIP + `]}]
ports: [{name: dns, protocol: UDP, port: 1053}, {name: dns-tcp, protocol: TCP, port: 1053}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: kube-system, name: coredns-6, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv6
endpoints: [{addresses: ["` + nodeIP6 + `"]}]
ports: [{name: dns, protocol: UDP, port: 1053}, {name: dns-tcp, protocol: TCP, port: 1053}]
`

// testBare creates the pods of testPolicies on the kubelet and containerd alone, with CoreDNS as
// the cluster DNS. They see, and resolve names to, what they did with the shim and with the agent.
func (c *cluster) testBare(t *testing.T) {
	corefile := filepath.Join(c.Dir, "Corefile")
	writeFile(t, corefile, coreDNSConfig)
	server := c.newProcess(c.CoreDNS, "-conf", corefile)
	start(t, server)
	c.apply(t, coreDNSService)
	c.remove(t, slices.Sorted(maps.Keys(policyPods()))...)
	c.startPods(t, barePods())
	await(t, "the first answer of CoreDNS", func() error {
		found, err := c.lookUp(t, "cluster-first", "glibc", "web")
		if err == nil && found["web"] != lookups[0].want {
			err = errors.New(found["web"])
		}
		return err
	})
	bare := c.observe(t)
	for component, observed := range c.observed {
		if diff := cmp.Diff(bare, observed); diff != "" {
			t.Errorf("pods with %s (-bare kubelet and CoreDNS +%[1]s):\n%s", component, diff)
		}
	}
	resolved := 0
	for _, o := range bare {
		resolved += len(o.Lookups)
	}
	t.Logf("%d pods and %d lookups compared", len(bare), resolved)
	if resolved == 0 {
		t.Error("no lookup was compared")
	}
	c.run(t, "", "delete", "service/kube-dns", "endpointslice/coredns-4", "endpointslice/coredns-6", "--namespace", "kube-system")
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
}
