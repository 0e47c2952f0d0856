// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// startCoreDNS starts CoreDNS as kubeadm configures it, for the Services of the cluster.
func startCoreDNS(t *testing.T, program, upstream string) *server {
	t.Helper()
	api := kubeapi.New()
	api.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	for i := range services {
		ip := serviceAddress(i)
		api.Apply(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("web-%d", i)},
			Spec: corev1.ServiceSpec{ClusterIP: ip, ClusterIPs: []string{ip}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}})
	}
	url := must.Get(api.Start())(t)
	t.Cleanup(api.Stop)
	corefile := apiserver.Corefile(t, "cmd/kubeadm/app/phases/addons/dns/manifests.go")
	return startCorefile(t, program, "CoreDNS", corefile, func(host, port string, other []string) []string {
		return []string{
			".:53 {", ".:" + port + " {\nbind " + host,
			"health {\n", "", "lameduck 5s\n        }", "", // a pause before the end
			"ready", "ready " + other[0],
			"in-addr.arpa ip6.arpa {", "in-addr.arpa ip6.arpa {\nendpoint " + url,
			":9153", other[1],
			"/etc/resolv.conf", upstream,
		}
	})
}

// startNodeLocal starts CoreDNS with the Corefile of NodeLocal DNSCache. Its image also has an interface and
// rules of iptables.
func startNodeLocal(t *testing.T, program, upstream string, cluster *server) *server {
	t.Helper()
	corefile := apiserver.Corefile(t, "cluster/addons/dns/nodelocaldns/nodelocaldns.yaml")
	return startCorefile(t, program, "NodeLocal DNSCache, "+cluster.name, corefile, func(host, port string, other []string) []string {
		return []string{
			":53 {", ":" + port + " {",
			"__PILLAR__DNS__DOMAIN__", "cluster.local",
			"__PILLAR__LOCAL__DNS__ __PILLAR__DNS__SERVER__", host,
			"__PILLAR__LOCAL__DNS__:8080", other[0],
			"__PILLAR__CLUSTER__DNS__", cluster.addr.String(),
			"__PILLAR__UPSTREAM__SERVERS__", upstream,
			":9253", other[1],
		}
	})
}

// startCorefile starts CoreDNS with a Corefile after replacements, which fill in the host and the port of
// the server, and two other addresses. The first of these has a page that says whether it is ready.
func startCorefile(t *testing.T, program, name, corefile string, replacements func(host, port string, other []string) []string) *server {
	t.Helper()
	addrs := process.Loopback(t, 3)
	host, port, err := net.SplitHostPort(addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "Corefile")
	text := strings.NewReplacer(replacements(host, port, addrs[1:])...).Replace(corefile)
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	s := &server{name: name, addr: netip.MustParseAddrPort(addrs[0]), http: addrs[1]}
	s.Program, s.Args = program, []string{"-conf", file}
	page := "/health"
	if strings.Contains(text, "ready ") {
		page = "/ready"
	}
	s.start(t, page, "OK")
	return s
}

// coreDNSServers starts CoreDNS, and NodeLocal DNSCache before it and before the cluster DNS server.
func coreDNSServers(t *testing.T, upstream string, cluster *server) (coreDNS, nodeLocal, nodeLocalCoreDNS *server) {
	t.Helper()
	program := apiserver.CoreDNS(t)
	coreDNS = startCoreDNS(t, program, upstream)
	return coreDNS, startNodeLocal(t, program, upstream, cluster),
		startNodeLocal(t, program, upstream, coreDNS)
}
