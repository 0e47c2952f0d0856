// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package neighbours

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/netns"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// clusterDNS is the address of the cluster DNS server, and forwardedZones are the zones that it is authoritative for.
const clusterDNS = "127.0.0.1"

var forwardedZones = []string{"cluster.local", "96.10.in-addr.arpa", "lb.example.com"}

// forwarders are DNS servers that ask the cluster DNS server for the forwarded zones. The configuration has the line
// zone for each of them; ADDRESS is the address to listen on. The command, of sh, has the directory of the configuration
// as $0.
var forwarders = []struct{ name, command, file, head, zone string }{
	{"BIND, forward zones", "exec named -g -c $0/named.conf", "named.conf", bindOptions,
		"zone ZONE { type forward; forward only; forwarders { 127.0.0.1; }; };"},
	{"BIND, static stub zones", "exec named -g -c $0/named.conf", "named.conf", bindOptions,
		"zone ZONE { type static-stub; server-addresses { 127.0.0.1; }; };"},
	{"unbound, forward zones, random case", "exec unbound -d -c $0/unbound.conf", "unbound.conf",
		unboundOptions + "use-caps-for-id: yes\n", "forward-zone:\nname: ZONE\nforward-addr: 127.0.0.1"},
	{"unbound, stub zones, strict QNAME minimisation", "exec unbound -d -c $0/unbound.conf", "unbound.conf",
		unboundOptions + "qname-minimisation-strict: yes\n", "stub-zone:\nname: ZONE\nstub-addr: 127.0.0.1"},
	{"PowerDNS Recursor", "exec pdns_recursor --config-dir=$0 --socket-dir=$0", "recursor.conf",
		"local-address=ADDRESS\ndont-query=\ndnssec=off\nhint-file=no\nserve-rfc1918=no\nwrite-pid=no\nforward-zones=\n",
		"forward-zones+=ZONE=127.0.0.1"},
	{"Knot Resolver", "cd $0 && exec kresd --noninteractive --config=$0/kresd.conf $0", "kresd.conf",
		"net.listen('ADDRESS', 53, { kind = 'dns' })\nmodules = { 'policy' }\ntrust_anchors.remove('.')\ncache.size = 10 * MB\n",
		"policy.add(policy.suffix(policy.STUB('127.0.0.1'), { todname('ZONE') }))"},
	{"dnsmasq", "exec dnsmasq --keep-in-foreground --conf-file=$0/dnsmasq.conf", "dnsmasq.conf",
		"listen-address=ADDRESS\nbind-interfaces\nno-resolv\nno-hosts\nuser=root\npid-file=\n", "server=/ZONE/127.0.0.1"},
}

const (
	bindOptions = `options { listen-on { ADDRESS; }; listen-on-v6 { none; }; dnssec-validation no; pid-file none; session-keyfile none; };
controls { };
`
	unboundOptions = `server:
interface: ADDRESS
chroot: ""
username: ""
pidfile: ""
use-syslog: no
module-config: iterator
do-not-query-localhost: no
local-zone: 10.in-addr.arpa nodefault
`
)

// endpoints is the number of addresses of the headless Service: as many records of a type as BIND accepts.
const endpoints = 100

// forwardedQuestions are the questions that all forwarders answer as the cluster DNS server does.
var forwardedQuestions = []string{
	"web.shop.svc.cluster.local. A", "web.shop.svc.cluster.local. AAAA", "web.shop.svc.cluster.local. MX",
	"Web.Shop.Svc.Cluster.Local. A", "db.shop.svc.cluster.local. A", "_pg._tcp.db.shop.svc.cluster.local. SRV",
	"db-7.db.shop.svc.cluster.local. A", "alias.shop.svc.cluster.local. A", "no.shop.svc.cluster.local. A",
	"a.b.c.no.shop.svc.cluster.local. AAAA", "shop.svc.cluster.local. A", "svc.cluster.local. TXT", "cluster.local. SOA",
	"cluster.local. NS", "cluster.local. DNSKEY", "dns-version.cluster.local. TXT", "2.1.96.10.in-addr.arpa. PTR",
	"9.9.96.10.in-addr.arpa. PTR", "1.96.10.in-addr.arpa. PTR", "web.shop.lb.example.com. A", "no.shop.lb.example.com. A",
	"shop.lb.example.com. A",
}

// TestForwarders compares the answers of other DNS servers in front of the cluster DNS server with its own.
func TestForwarders(t *testing.T) {
	debian.InstallPackages(t, "iproute2", "bind9", "unbound", "pdns-recursor", "knot-resolver", "dnsmasq-base")
	if !netns.Enter(t) {
		return
	}
	netns.Run(t, "ip link set lo up")
	dir, objects := t.TempDir(), t.TempDir()
	write(t, objects, "objects.yaml", forwardedObjects())
	write(t, dir, "dns.yaml", "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: DNSConfiguration\n"+
		"reverseCIDRs: [10.96.0.0/16]\nexternalZones: [lb.example.com]\n")
	start(t, "exec "+process.Build(t)+" dns --config $0/dns.yaml --manifests "+objects+
		" --listen 127.0.0.1:53 --upstream 127.0.0.2", dir)
	poll.Until(t, "an answer", func() bool { return strings.HasPrefix(answerOf(t, clusterDNS, forwardedQuestions[0]), "NOERROR") })
	var want []string
	for _, question := range forwardedQuestions {
		want = append(want, answerOf(t, clusterDNS, question))
	}
	for i, f := range forwarders {
		t.Run(f.name, func(t *testing.T) {
			address, dir := fmt.Sprint("127.0.0.", 10+i), t.TempDir()
			netns.Run(t, "ip address add "+address+"/32 dev lo") // BIND listens on addresses of interfaces only
			text := f.head
			for _, zone := range forwardedZones {
				text += strings.ReplaceAll(f.zone, "ZONE", zone) + "\n"
			}
			write(t, dir, f.file, strings.ReplaceAll(text, "ADDRESS", address))
			start(t, f.command, dir)
			poll.Until(t, "an answer", func() bool { return answerOf(t, address, forwardedQuestions[0]) == want[0] })
			for i, question := range forwardedQuestions {
				if got := answerOf(t, address, question); got != want[i] {
					t.Errorf("%s: got %s, want %s", question, got, want[i])
				}
			}
		})
	}
}

// forwardedObjects returns the objects of the cluster.
func forwardedObjects() string {
	text := `apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web}
spec: {type: LoadBalancer, clusterIPs: [10.96.1.2, "fd00::2"], ipFamilies: [IPv4, IPv6], ports: [{name: http, port: 80}]}
status: {loadBalancer: {ingress: [{ip: 198.51.100.7}]}}
---
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: alias}
spec: {type: ExternalName, externalName: web.shop.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: db}
spec: {clusterIP: None, ports: [{name: pg, port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
addressType: IPv4
metadata: {namespace: shop, name: db-1, labels: {kubernetes.io/service-name: db}}
ports: [{name: pg, port: 5432}]
endpoints:
`
	for i := range endpoints {
		text += fmt.Sprintf("- {hostname: db-%d, addresses: [10.244.0.%[1]d], conditions: {ready: true}}\n", i+1)
	}
	return text
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

// start runs a command of sh until the test ends, and logs what it has printed if the test fails.
func start(t *testing.T, command, dir string) {
	t.Helper()
	log := filepath.Join(dir, "log") // a pipe would stay open in processes that the command starts
	cmd := exec.Command("sh", "-c", "exec >$0/log 2>&1; "+command, dir)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // fails if it has ended
		_ = cmd.Wait()         // killed
		if t.Failed() {
			text, err := os.ReadFile(log)
			t.Log(string(text), err)
		}
	})
}

// answerOf returns the rcode and the records of the answer of a server to a question, which is asked over UDP as the C
// libraries ask, and again over TCP if the reply is truncated. The records are sorted, without their TTLs.
func answerOf(t *testing.T, server, question string) string {
	t.Helper()
	name, qtype, _ := strings.Cut(question, " ")
	query := new(dns.Msg).SetQuestion(name, dns.StringToType[qtype])
	address := net.JoinHostPort(server, "53")
	reply, _, err := (&dns.Client{Timeout: 5 * time.Second}).Exchange(query, address)
	if err == nil && reply.Truncated {
		reply, _, err = (&dns.Client{Net: "tcp", Timeout: 5 * time.Second}).Exchange(query, address)
	}
	if err != nil {
		return err.Error()
	}
	var records []string
	for _, rr := range reply.Answer {
		rr.Header().Ttl = 0
		records = append(records, strings.ToLower(rr.String()))
	}
	slices.Sort(records)
	return strings.Join(append([]string{dns.RcodeToString[reply.Rcode]}, records...), "\n")
}
