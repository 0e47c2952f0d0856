// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
)

// Servers that are not a cluster DNS, with one thread each where that can be configured.
// Their cost is the cost of a server of their kind.

// NSD serves the zone file, as an authoritative server.
func NSD(ctx context.Context, dir, zoneFile string) (*Process, error) {
	return configured(ctx, "NSD", dir, func(host, port string) (string, []string) {
		return fmt.Sprintf(`server:
	ip-address: %s@%s
	server-count: 1
	username: ""
	chroot: ""
	zonesdir: %q
	database: ""
	pidfile: %[3]s/nsd.pid
	xfrdfile: %[3]s/nsd.xfrd
	zonelistfile: %[3]s/nsd.zones
remote-control:
	control-enable: no
zone:
	name: cluster.local
	zonefile: %[4]q
`, host, port, dir, zoneFile), []string{"nsd", "-d", "-c"}
	})
}

// Knot serves the zone file, as an authoritative server.
func Knot(ctx context.Context, dir, zoneFile string) (*Process, error) {
	return configured(ctx, "Knot", dir, func(host, port string) (string, []string) {
		return fmt.Sprintf(`server:
    rundir: %q
    user: root:root
    listen: %s@%s
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
log:
  - target: stderr
    any: warning
database:
    storage: %[1]q
zone:
  - domain: cluster.local
    storage: %[1]q
    file: %[4]q
    zonefile-sync: -1
`, dir, host, port, zoneFile), []string{"knotd", "-c"}
	})
}

// Unbound caches the replies of the upstream resolver.
func Unbound(ctx context.Context, dir, upstream string) (*Process, error) {
	host, port, err := net.SplitHostPort(upstream)
	if err != nil {
		return nil, err
	}
	return configured(ctx, "unbound", dir, func(listenHost, listenPort string) (string, []string) {
		return fmt.Sprintf(`server:
	interface: %s@%s
	num-threads: 1
	do-daemonize: no
	use-syslog: no
	chroot: ""
	username: ""
	directory: %q
	pidfile: ""
	module-config: "iterator"
	do-not-query-localhost: no
remote-control:
	control-enable: no
forward-zone:
	name: "."
	forward-addr: %s@%s
`, listenHost, listenPort, dir, host, port), []string{"unbound", "-d", "-c"}
	})
}

// Dnsmasq caches the replies of the upstream resolver.
func Dnsmasq(ctx context.Context, dir, upstream string) (*Process, error) {
	host, port, err := net.SplitHostPort(upstream)
	if err != nil {
		return nil, err
	}
	return configured(ctx, "dnsmasq", dir, func(listenHost, listenPort string) (string, []string) {
		return fmt.Sprintf(`port=%s
listen-address=%s
bind-interfaces
no-resolv
no-hosts
server=%s#%s
cache-size=10000
dns-forward-max=1000
user=root
pid-file=
`, listenPort, listenHost, host, port), []string{"dnsmasq", "-k", "-C"}
	})
}

// Echo returns every query as its own reply, in batches: the cost of the kernel.
func Echo(ctx context.Context, binary string) (*Process, error) {
	address, err := freePort()
	if err != nil {
		return nil, err
	}
	return answering(ctx, "the echo", exec.Command(binary, address), address)
}

// configured runs a server with the file and the command line that config returns.
func configured(ctx context.Context, name, dir string, config func(host, port string) (text string, args []string)) (*Process, error) {
	address, port, err := freeHostPort()
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	text, args := config(host, port)
	file := filepath.Join(dir, args[0]+".conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return answering(ctx, name, exec.Command(args[0], append(args[1:], file)...), address)
}

// answering starts a server and waits until it answers.
func answering(ctx context.Context, name string, cmd *exec.Cmd, address string) (*Process, error) {
	p, err := start(name, cmd, address)
	if err != nil {
		return nil, err
	}
	err = p.Wait(ctx, func() bool {
		m, err := ask.One(address, ask.Question{Name: "cluster.local.", Type: dns.TypeSOA})
		return err == nil && m != nil
	})
	if err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}
