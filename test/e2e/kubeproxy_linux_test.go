// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/netns"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// The lease at the address of a Service, with the rules of kube-proxy. The kernel of a test machine may lack IPVS.
func TestKubeProxy_Iptables(t *testing.T) { testKubeProxy(t, "iptables") }
func TestKubeProxy_Nftables(t *testing.T) { testKubeProxy(t, "nftables") }

// The Services of the cluster DNS: that of the pods, and the one to which the node cache forwards.
const podService, cacheService = "10.96.0.10", "10.96.0.11"

// Environment variables with the paths of programs, in the second process.
const proxyVariable, productVariable = "DNSCONFIGURER_TEST_PROXY", "DNSCONFIGURER_TEST_PRODUCT"

func testKubeProxy(t *testing.T, mode string) {
	if os.Getenv(proxyVariable) == "" {
		debian.Install(t, "iptables", "iptables")
		debian.Install(t, "nft", "nftables")
		t.Setenv(proxyVariable, process.BuildTool(t, "test/cluster", "kube-proxy"))
		t.Setenv(productVariable, process.Build(t))
	}
	if !netns.EnterSerial(t) {
		return
	}
	netns.Run(t, "ip link set lo up", "sysctl -qw net.ipv4.ip_forward=1")
	n := &proxiedNode{T: t, client: netns.NewPod(t, 1), dir: t.TempDir(), api: kubeapi.New()}
	for i := 2; i <= 3; i++ {
		n.serveClusterDNS(netns.NewPod(t, i))
	}
	netns.Run(t, "ip route add default via 10.244.1.2") // the kernel translates only what has a route
	for service, address := range map[string]string{"kube-dns": podService, "kube-dns-upstream": cacheService} {
		n.applyService(service, address, "10.244.2.2", "10.244.3.2")
	}
	n.startProxy(mode)
	n.expect("cluster DNS")

	cache := n.startNodeCache()
	n.expect("node cache")
	n.applyService("kube-dns", podService, "10.244.2.2") // kube-proxy writes its rules again
	n.applyService("other", "10.96.0.12", "10.244.2.2")
	n.awaitReply("10.96.0.12:53")
	n.expect("node cache")
	for _, step := range []struct {
		signal syscall.Signal
		reach  string
	}{{syscall.SIGSTOP, "cluster DNS"}, {syscall.SIGCONT, "node cache"}, {syscall.SIGKILL, "cluster DNS"}} {
		must.Succeed(t, syscall.Kill(cache.PID(), step.signal))
		n.expect(step.reach)
	}
	cache.Kill()
	cache = n.startNodeCache()
	n.expect("node cache")
	if err := cache.Stop(); err != nil {
		t.Error(err)
	}
	n.expect("cluster DNS")
}

// proxiedNode is the network of a node with kube-proxy, a client and two pods of the cluster DNS.
type proxiedNode struct {
	*testing.T
	client *netns.Pod
	dir    string
	api    *kubeapi.Server
}

// serveClusterDNS runs a cluster DNS in a pod.
func (n *proxiedNode) serveClusterDNS(pod *netns.Pod) {
	var udp net.PacketConn
	var tcp net.Listener
	var err1, err2 error
	pod.Do(func() {
		udp, err1 = net.ListenPacket("udp", pod.Addr+":53")
		tcp, err2 = net.Listen("tcp", pod.Addr+":53")
	})
	must.Succeed(n, errors.Join(err1, err2))
	server := dnstest.Serve(udp, tcp, dnstest.Reply(func(query *dns.Msg) *dns.Msg {
		reply := new(dns.Msg).SetReply(query)
		if query.Question[0].Qtype != dns.TypeSOA {
			reply.Rcode = dns.RcodeNameError
		}
		return reply
	}))
	n.Cleanup(func() { server.Close() })
}

// applyService creates or changes a Service of the cluster DNS with its endpoints.
func (n *proxiedNode) applyService(name, address string, endpoints ...string) {
	meta := metav1.ObjectMeta{Namespace: "kube-system", Name: name}
	family := []corev1.IPFamily{corev1.IPv4Protocol}
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, ClusterIP: address, ClusterIPs: []string{address}, IPFamilies: family}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: name}
	for _, protocol := range []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP} {
		portName := string(protocol)
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: portName, Protocol: protocol, Port: 53})
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &portName, Protocol: &protocol, Port: new(int32(53))})
	}
	for _, endpoint := range endpoints {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{endpoint}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}})
	}
	n.api.Apply(service, slice)
}

// startProxy runs kube-proxy, whose API server has the objects applied so far.
func (n *proxiedNode) startProxy(mode string) {
	n.api.Apply(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.client.Node}}}})
	n.api.Apply(&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
		Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12"}}})
	url := must.Get(n.api.Start())(n)
	n.Cleanup(n.api.Stop)
	kubeconfig, config := filepath.Join(n.dir, "kubeconfig"), filepath.Join(n.dir, "proxy.yaml")
	writeFile(n.T, kubeconfig, kubeapi.Kubeconfig(url))
	writeFile(n.T, config, "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: "+mode+
		"\nclientConnection: {kubeconfig: "+kubeconfig+"}\nhostnameOverride: "+nodeName+"\nclusterCIDR: 10.244.0.0/16\n"+
		"conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}\n")
	n.start(os.Getenv(proxyVariable), "--config="+config)
}

// startNodeCache runs the node cache at the address of the Service.
func (n *proxiedNode) startNodeCache() *process.Process {
	config := filepath.Join(n.dir, "nodecache.yaml")
	writeFile(n.T, config, "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: NodeCacheConfiguration\nlisten: ['"+podService+":53']\n"+
		"interface: lo\nclusterDNS: ['"+cacheService+"']\nresolvConf: ''\n")
	return n.start(os.Getenv(productVariable), "nodecache", "--config", config)
}

func (n *proxiedNode) start(program string, args ...string) *process.Process {
	p := &process.Process{Program: program, Args: args, LogFile: filepath.Join(n.dir, filepath.Base(program)+".log")}
	must.Succeed(n, p.Start())
	n.Cleanup(p.Kill)
	logFailure(n.T, p)
	return p
}

// expect waits until all queries to the address of the Service reach a server, of the host and of a pod, over UDP
// and TCP.
func (n *proxiedNode) expect(want string) {
	n.Helper()
	await(n.T, "queries to reach the "+want, func() error {
		for _, network := range []string{"udp", "tcp"} {
			host, pod := ask(network, podService+":53"), ""
			n.client.Do(func() { pod = ask(network, podService+":53") })
			if host != want || pod != want {
				return fmt.Errorf("over %s queries of the host reach %q, those of a pod %q", network, host, pod)
			}
		}
		return nil
	})
}

// awaitReply waits until queries to an address are answered.
func (n *proxiedNode) awaitReply(address string) {
	n.Helper()
	await(n.T, "a reply of "+address, func() error {
		if reply := ask("udp", address); reply != "cluster DNS" {
			return errors.New(reply)
		}
		return nil
	})
}

// ask returns which server replies at an address: only the node cache has the name.
func ask(network, address string) (server string) {
	client := dns.Client{Net: network, Timeout: 300 * time.Millisecond}
	reply, _, err := client.Exchange(new(dns.Msg).SetQuestion("test.node-cache.dnsconfigurer.invalid.", dns.TypeHINFO), address)
	switch {
	case err != nil:
		return err.Error()
	case len(reply.Answer) > 0:
		return "node cache"
	}
	return "cluster DNS"
}
