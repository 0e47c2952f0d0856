// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// Cluster is the configuration of a cluster DNS server.
type Cluster struct {
	Dir      string   // for its files
	API      string   // URL
	Upstream string   // address of a resolver
	PodMode  string   // disabled, insecure or verified
	TTL      int      // of records, in seconds; 0: 5
	Cache    int      // seconds for which CoreDNS caches; 0: not at all
	Autopath bool     // CoreDNS expands search paths; with PodMode verified alone
	Snapshot string   // of dnsconfigurer, a file; "": none
	External []string // zones
	Log      bool     // of all queries, to standard output
	Rules    bool     // a thousand hosts and two hundred rewritten names, none of the cluster

	// HostSuffixes are the search domains of the nodes. CoreDNS reads them from its own
	// resolv.conf, which needs root.
	HostSuffixes []string
}

// CoreDNS runs the CoreDNS at binary with the Corefile of kubeadm, without the plugins
// that do not affect replies. It listens on all addresses: with the plugin bind it does
// not find its own address.
func CoreDNS(ctx context.Context, binary string, c Cluster) (*Process, error) {
	addresses, err := process.Free(2)
	if err != nil {
		return nil, err
	}
	address, ready := addresses[0], addresses[1]
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	var more string
	if c.Cache > 0 {
		more += fmt.Sprintf("\tcache %d\n", c.Cache)
	}
	if c.Log {
		more += "\tlog\n"
	}
	if c.Rules {
		more += "\thosts {\n" + strings.Join(hosts(), "\n") + "\nfallthrough\n}\n"
		for _, r := range rewrites() {
			more += "\trewrite name " + r.coreDNS + " answer auto\n"
		}
	}
	if c.External != nil {
		more += "\tk8s_external " + strings.Join(c.External, " ") + "\n"
	}
	if c.Autopath {
		more += "\tautopath @kubernetes\n"
	}
	corefile := filepath.Join(c.Dir, "Corefile")
	text := fmt.Sprintf(`.:%s {
	ready %s
	kubernetes cluster.local in-addr.arpa ip6.arpa {
		endpoint %s
		pods %s
		fallthrough in-addr.arpa ip6.arpa
		ttl %d
	}
	forward . %s
	loadbalance
%s}
`, port, ready, c.API, c.PodMode, cmp.Or(c.TTL, 5), c.Upstream, more)
	if err := os.WriteFile(corefile, []byte(text), 0o600); err != nil {
		return nil, err
	}
	command := []string{binary, "-conf", corefile}
	if c.HostSuffixes != nil {
		host, err := c.resolvConf()
		if err != nil {
			return nil, err
		}
		command = append([]string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" /etc/resolv.conf && exec "$@"`, host}, command...)
	}
	return Start(ctx, c.Dir, address, func() bool { return process.Page(ready, "/ready") == "OK" }, command...)
}

// Ours runs the dnsconfigurer at binary.
func Ours(ctx context.Context, binary string, c Cluster) (*Process, error) {
	addresses, err := process.Free(2)
	if err != nil {
		return nil, err
	}
	address, http := addresses[0], addresses[1]
	kubeconfig := filepath.Join(c.Dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(kubeapi.Kubeconfig(c.API)), 0o600); err != nil {
		return nil, err
	}
	fields := map[string]any{
		"pods": c.PodMode, "ttl": cmp.Or(c.TTL, 5), "hostSuffixes": c.HostSuffixes,
		"autopathNetworks": []string{"127.0.0.0/8"}, // of the node cache, which has no Service
	}
	if c.Snapshot != "" { // was a mapping in 0.1.0, which measure can run too
		fields["snapshot"] = c.Snapshot
	}
	if c.External != nil {
		fields["externalZones"] = c.External
	}
	if c.Log {
		fields["queryLog"] = map[string]any{"classes": []string{"all"}}
	}
	if c.Rules {
		var rules []json.RawMessage
		for _, r := range rewrites() {
			rules = append(rules, json.RawMessage(r.own))
		}
		fields["hosts"], fields["rewrite"] = map[string]any{"entries": hosts()}, rules
	}
	config, err := c.configure("dns.yaml", v1alpha1.KindDNS, fields)
	if err != nil {
		return nil, err
	}
	return Start(ctx, c.Dir, address, func() bool { return process.Page(http, "/readyz") == "ok\n" },
		binary, "dns", "--config", config, "--kubeconfig", kubeconfig,
		"--listen", address, "--http", http, "--cluster-domain", "cluster.local", "--upstream", c.Upstream)
}

// hosts returns lines of a hosts file.
func hosts() []string {
	lines := make([]string, 1000)
	for i := range lines {
		lines[i] = fmt.Sprintf("192.0.2.%d host%d.example", i%250, i)
	}
	return lines
}

// A rewrite is a rule in both formats.
type rewrite struct{ own, coreDNS string }

// rewrites returns rules that rewrite names, two fifths of them by a suffix and a tenth by a regular expression.
func rewrites() []rewrite {
	rules := make([]rewrite, 200)
	for i := range rules {
		name := fmt.Sprintf("lab%d.example", i)
		switch {
		case i%10 == 0:
			rules[i] = rewrite{`{"regex": "^([a-z]+)[.]` + name + `$", "to": "{1}.example"}`,
				`regex ^([a-z]+)[.]` + name + `\.$ {1}.example`}
		case i%2 == 0:
			rules[i] = rewrite{`{"name": "*.` + name + `", "to": "*.example"}`, `suffix .` + name + ` .example`}
		default:
			rules[i] = rewrite{`{"name": "` + name + `", "to": "www.example"}`, `exact ` + name + ` www.example`}
		}
	}
	return rules
}

// NodeCache runs the dnsconfigurer at binary as a node cache in front of a cluster DNS
// server.
func NodeCache(ctx context.Context, binary, clusterDNS string, c Cluster) (*Process, error) {
	addresses, err := process.Free(1)
	if err != nil {
		return nil, err
	}
	address := addresses[0]
	host, err := c.resolvConf()
	if err != nil {
		return nil, err
	}
	config, err := c.configure("nodecache.yaml", v1alpha1.KindNodeCache, map[string]any{"resolvConf": host})
	if err != nil {
		return nil, err
	}
	return Start(ctx, c.Dir, address, Answers(address), binary, "nodecache", "--config", config, "--listen", address,
		"--cluster-dns", clusterDNS, "--cluster-domain", "cluster.local", "--upstream", c.Upstream)
}

// configure writes a configuration file.
func (c Cluster) configure(name, kind string, fields map[string]any) (path string, err error) {
	fields["apiVersion"], fields["kind"] = v1alpha1.GroupVersion, kind
	text, err := json.Marshal(fields)
	path = filepath.Join(c.Dir, name)
	return path, errors.Join(err, os.WriteFile(path, text, 0o600))
}

// resolvConf writes the resolv.conf of a host.
func (c Cluster) resolvConf() (path string, err error) {
	path = filepath.Join(c.Dir, "resolv.conf")
	return path, os.WriteFile(path, []byte("nameserver 192.0.2.1\nsearch "+strings.Join(c.HostSuffixes, " ")+"\n"), 0o600)
}

// OwnAddress returns an address of this machine by which CoreDNS finds its own Service,
// or none if there is only the loopback interface.
func OwnAddress() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && !prefix.Addr().IsLoopback() {
			return []netip.Addr{prefix.Addr()}, nil
		}
	}
	return nil, nil
}
