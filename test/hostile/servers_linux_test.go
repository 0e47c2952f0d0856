// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// Names and sizes of the cluster. Number i of the services is web-i in the namespace default,
// with the address 10.96.0.0 + i.
const (
	services       = 500
	largeEndpoints = 5000 // of the headless Service large, with one port
	manyEndpoints  = 1000 // of the headless Service many, with five ports
	chainLength    = 12   // of the ExternalNames chain-1 to chain-12
	zone           = "cluster.local."
)

// server is a server in its own process.
type server struct {
	process.Process
	name  string
	addr  netip.AddrPort // of DNS
	http  string         // of its metrics
	limit int            // the memory limit of its manifest, in MiB; 0: not a server of this project

	descriptors int // open file descriptors when it is idle
}

// limits are those of deploy/cluster-dns/deployment.yaml and deploy/node-cache/daemonset.yaml.
const (
	clusterMemory, clusterGoMemory = 256, "230MiB"
	nodeMemory, nodeGoMemory       = 192, "160MiB"
)

// A configuration file begins with its kind.
const configHead = "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: "

// startServers starts the cluster DNS server, with the fields, and a node cache. They forward to the same
// upstream server, as in a cluster whose nodes have one resolver and the search domains.
func startServers(t *testing.T, upstream string, search []string, fields string) (cluster, node *server) {
	t.Helper()
	dir := t.TempDir()
	resolvConf, cacheFile := filepath.Join(dir, "resolv.conf"), filepath.Join(dir, "nodecache.yaml")
	host := "nameserver 192.0.2.1\nsearch " + strings.Join(search, " ") + "\n"
	must.Succeed(t, errors.Join(os.WriteFile(resolvConf, []byte(host), 0o600),
		os.WriteFile(cacheFile, []byte(configHead+"NodeCacheConfiguration\nresolvConf: "+resolvConf+"\n"), 0o600)))
	program := process.Build(t)
	cluster = startClusterDNS(t, program, upstream, clusterGoMemory, "hostSuffixes: ["+strings.Join(search, ", ")+"]\n"+fields)
	node = startServer(t, program, "node cache", nodeMemory, nodeGoMemory,
		"nodecache", "--cluster-dns", cluster.addr.String(), "--upstream", upstream, "--config", cacheFile)
	return cluster, node
}

// startClusterDNS starts the cluster DNS server with fields of its configuration.
func startClusterDNS(t *testing.T, program, upstream, goLimit, fields string) *server {
	t.Helper()
	dir := t.TempDir()
	manifests, config := filepath.Join(dir, "manifests"), filepath.Join(dir, "dns.yaml")
	must.Succeed(t, errors.Join(os.Mkdir(manifests, 0o700), os.WriteFile(filepath.Join(manifests, "cluster.yaml"), objects(), 0o600),
		os.WriteFile(config, []byte(configHead+"DNSConfiguration\n"+fields), 0o600)))
	return startServer(t, program, "cluster DNS", clusterMemory, goLimit,
		"dns", "--config", config, "--manifests", manifests, "--upstream", upstream)
}

// startServer starts a server of this project. goLimit is its GOMEMLIMIT.
func startServer(t *testing.T, program, name string, limit int, goLimit string, args ...string) *server {
	t.Helper()
	addrs := process.Loopback(t, 2)
	s := &server{name: name, addr: netip.MustParseAddrPort(addrs[0]), http: addrs[1], limit: limit}
	s.Program, s.Args = program, append(args, "--listen", addrs[0], "--http", s.http)
	t.Setenv("GOMEMLIMIT", goLimit)
	s.start(t, "/readyz", "ok\n")
	s.descriptors = s.openDescriptors(t)
	return s
}

// start starts the server, and waits until a page has the text.
func (s *server) start(t *testing.T, path, want string) {
	t.Helper()
	s.LogFile = filepath.Join(t.TempDir(), "log")
	must.Succeed(t, s.Start())
	t.Cleanup(func() {
		if err := s.Stop(); err != nil || strings.Contains(s.Log(), "panic") {
			t.Errorf("%s ended: %v\n%s", s.name, err, s.Log())
		}
	})
	s.poll(t, "to be ready", func() string {
		if page := process.Page(s.http, path); page != want {
			return page
		}
		return ""
	})
}

// poll calls problem until it returns "".
func (s *server) poll(t *testing.T, what string, problem func() string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		text := problem()
		if text == "" {
			return
		}
		if err := s.Alive(); err != nil || time.Now().After(deadline) {
			t.Fatalf("waiting for %s %s: %s, %v\n%s", s.name, what, text, err, s.Log())
		}
	}
}

// openDescriptors returns the number of open file descriptors: one for each connection, and for
// each query to an upstream server.
func (s *server) openDescriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.PID()))
	if err != nil {
		t.Fatalf("%s has ended: %v\n%s", s.name, err, s.Log())
	}
	return len(list)
}

// resetPeak makes the kernel forget the peak of the resident memory (proc_pid_clear_refs(5)).
func (s *server) resetPeak(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.PID()), []byte("5"), 0); err != nil {
		t.Fatalf("%s: %v\n%s", s.name, err, s.Log())
	}
}

// peak returns the peak of the resident memory, in MiB.
func (s *server) peak(t *testing.T) int {
	t.Helper()
	kib := must.Get(s.Memory("VmHWM"))(t)
	return kib / 1024
}

// checkPeak compares the peak with the limit, if there is one.
func (s *server) checkPeak(t *testing.T) {
	t.Helper()
	if most := s.peak(t); s.limit > 0 && most > s.limit {
		t.Errorf("the resident memory of the %s was %d MiB, its limit is %d MiB", s.name, most, s.limit)
	}
}

func objects() []byte {
	var b bytes.Buffer
	b.WriteString("apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n")
	service := func(name, spec string) {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: default}\nspec: {%s}\n", name, spec)
	}
	for i := range services {
		service(fmt.Sprintf("web-%d", i), fmt.Sprintf("clusterIP: %s, ports: [{name: http, port: 80}]", serviceAddress(i)))
	}
	for i := range chainLength {
		service(fmt.Sprintf("chain-%d", i+1), fmt.Sprintf("type: ExternalName, externalName: chain-%d.default.svc.cluster.local", i))
	}
	service("loop", "type: ExternalName, externalName: loop.default.svc.cluster.local")
	service("outside", "type: ExternalName, externalName: outside.silent.example")
	headless := func(name string, endpoints int, ports string) {
		service(name, "clusterIP: None")
		for i := 0; i < endpoints; i += 100 {
			fmt.Fprintf(&b, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n"+
				"metadata: {name: %s-%d, namespace: default, labels: {kubernetes.io/service-name: %s}}\n"+
				"ports: [%s]\nendpoints:\n", name, i, name, ports)
			for j := range 100 {
				fmt.Fprintf(&b, "- {addresses: [%s]}\n", endpointAddress(name, i+j))
			}
		}
	}
	headless("large", largeEndpoints, "{name: http, port: 80}")
	headless("many", manyEndpoints, "{name: a, port: 1}, {name: b, port: 2}, {name: c, port: 3}, {name: d, port: 4}, {name: e, port: 5}")
	return b.Bytes()
}

func serviceAddress(i int) string { return fmt.Sprintf("10.96.%d.%d", i/256, i%256) }

func endpointAddress(service string, i int) string {
	return fmt.Sprintf("10.%d.%d.%d", 100+len(service), i/256, i%256)
}
