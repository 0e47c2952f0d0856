// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/peer"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// configured is a server that is not a cluster DNS, with one thread where that can be configured. Its cost
// is the cost of a server of its kind.
type configured struct {
	name    string
	command []string // the configuration file follows

	// config is the format of the file: the host and the port of the server, a directory, and the
	// source of its data.
	config string
}

// The others. NSD and Knot serve a zone file, unbound and dnsmasq cache the replies of an upstream
// server.
var (
	nsd = configured{"NSD", []string{"nsd", "-d", "-c"}, `server:
	ip-address: %[1]s@%[2]s
	server-count: 1
	username: ""
	chroot: ""
	zonesdir: %[3]q
	database: ""
	pidfile: %[3]s/nsd.pid
	xfrdfile: %[3]s/nsd.xfrd
	zonelistfile: %[3]s/nsd.zones
remote-control:
	control-enable: no
zone:
	name: cluster.local
	zonefile: %[4]q
`}
	knot = configured{"Knot", []string{"knotd", "-c"}, `server:
    rundir: %[3]q
    user: root:root
    listen: %[1]s@%[2]s
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
log:
  - target: stderr
    any: warning
database:
    storage: %[3]q
zone:
  - domain: cluster.local
    storage: %[3]q
    file: %[4]q
    zonefile-sync: -1
`}
	unbound = configured{"unbound", []string{"unbound", "-d", "-c"}, `server:
	interface: %[1]s@%[2]s
	num-threads: 1
	do-daemonize: no
	use-syslog: no
	chroot: ""
	username: ""
	directory: %[3]q
	pidfile: ""
	module-config: "iterator"
	do-not-query-localhost: no
remote-control:
	control-enable: no
forward-zone:
	name: "."
	forward-addr: %[4]s
`}
	dnsmasq = configured{"dnsmasq", []string{"dnsmasq", "-k", "-C"}, `port=%[2]s
listen-address=%[1]s
bind-interfaces
no-resolv
no-hosts
server=%[4]s
cache-size=10000
dns-forward-max=1000
user=root
pid-file=
`}
)

// subject returns the server with a source of data: a zone file, or the address of an upstream server
// with its own separator before the port.
func (c configured) subject(source string) *subject {
	return &subject{name: c.name, run: func(ctx context.Context, dir string) (*peer.Process, error) {
		addresses, err := process.Free(1)
		if err != nil {
			return nil, err
		}
		host, port, err := net.SplitHostPort(addresses[0])
		if err != nil {
			return nil, err
		}
		file := filepath.Join(dir, "configuration")
		if err := os.WriteFile(file, fmt.Appendf(nil, c.config, host, port, dir, source), 0o600); err != nil {
			return nil, err
		}
		return peer.Start(ctx, dir, addresses[0], peer.Answers(addresses[0]), append(c.command[:len(c.command):len(c.command)], file)...)
	}}
}

// upstreamWith returns the address of the upstream server, with a separator before its port.
func (b *bench) upstreamWith(separator string) string {
	return strings.Replace(b.cluster.Upstream, ":", separator, 1)
}

// echo returns every query as its own reply, in batches: the cost of the kernel.
func (b *bench) echo() *subject {
	return &subject{name: "echo", run: func(ctx context.Context, dir string) (*peer.Process, error) {
		addresses, err := process.Free(1)
		if err != nil {
			return nil, err
		}
		return peer.Start(ctx, dir, addresses[0], peer.Answers(addresses[0]), b.binaries.echo, addresses[0])
	}}
}
