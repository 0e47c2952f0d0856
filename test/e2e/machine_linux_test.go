// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
)

// The machine and its addresses.
const (
	nodeName  = "node1"
	nodeIP    = "192.0.2.1"
	nodeIP6   = "fd00:192::1"
	outside   = "192.0.2.53" // the DNS server of all names outside the cluster
	nodeCache = "169.254.20.10"
	dnsIP     = "10.96.0.10"
	dnsIP6    = "fd00:10:96::a"
)

// hostResolvConf is the file that pods get. It differs from the machine's own, which runtimes use
// as the default.
const hostResolvConf = "search corp.example node.example\nnameserver " + outside + "\noptions timeout:3 attempts:2\n"

// etc are the files of the machine's /etc.
var etc = map[string]string{
	"resolv.conf": "nameserver 192.0.2.99\nsearch wrong.example\n",
	"hosts":       "127.0.0.1 localhost\n" + nodeIP + " " + nodeName + "\n",
	"passwd":      "root:x:0:0:root:/root:/bin/sh\n", // without user IDs for pods
	"group":       "root:x:0:\n",
	"cni/net.d/pods.conflist": `{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "ptp", "ipam": {"type": "host-local", "dataDir": "/run/ipam",
    "ranges": [[{"subnet": "10.244.0.0/24"}], [{"subnet": "fd00:244::/64"}]],
    "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}}
]}`,
	"containerd/config.toml": nodetools.ContainerdConfig,
}

// patience limits each wait. The longest takes 15 seconds on a machine with two cores and nothing
// else to do.
const patience = 10 * time.Minute

// await calls try until it succeeds. what says for what it waits.
func await(t testing.TB, what string, try func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v: %v", what, patience, err)
		}
		time.Sleep(pause)
	}
}
