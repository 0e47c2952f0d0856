// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// hideNode replaces the directories of the node that maintainer scripts look at, and systemctl, which
// prints its arguments and fails. Then it runs the script of its standard input. Mounts are seen by this process only.
const hideNode = `set -e
for dir in /etc /var/lib /run; do
	mount -t tmpfs none $dir
done
mkdir -p /run/systemd/system /run/bin
printf '#!/bin/sh\necho systemctl "$@"\nexit 1\n' >/run/bin/systemctl
chmod +x /run/bin/systemctl
PATH=/run/bin:$PATH
eval "$NODE"
sh -s -- $ARGUMENTS || echo "exit code $?"
find /run/dnsconfigurer /var/lib/dnsconfigurer 2>/dev/null | sort
`

// TestPackaging_Scripts runs the maintainer scripts as dpkg and rpm do, on a node where systemctl
// fails.
func TestPackaging_Scripts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make mounts")
	}
	const reload, restart = "systemctl daemon-reload\n",
		"systemctl try-restart dnsconfigurer-shim.service\nsystemctl try-restart dnsconfigurer-agent.service\n"
	const (
		shim     = "mkdir /run/dnsconfigurer; touch /run/dnsconfigurer/shim.sock /run/dnsconfigurer/shim.sock.lock"
		crio     = "mkdir -p /run/dnsconfigurer/run/crio; touch /run/dnsconfigurer/run/crio/crio.sock"
		agent    = "mkdir -p /run/dnsconfigurer/nri/agent"
		state    = "mkdir /var/lib/dnsconfigurer; touch /var/lib/dnsconfigurer/last-good.yaml"
		kubelet  = "mkdir /var/lib/kubelet; echo endpoint=unix:///run/dnsconfigurer/shim.sock >/var/lib/kubelet/kubeadm-flags.env"
		k3s      = "mkdir -p /etc/rancher; echo container-runtime-endpoint: /run/dnsconfigurer/shim.sock >/etc/rancher/config.yaml"
		disabled = "systemctl disable --now " +
			"dnsconfigurer-shim.socket dnsconfigurer-shim.service dnsconfigurer-bypass.service dnsconfigurer-agent.service\nexit code 1\n"
	)
	for _, tt := range []struct{ script, arguments, node, want string }{
		{"postinstall", "configure", "", reload}, // dpkg: installation, upgrade, and what it does after a failure
		{"postinstall", "configure 0.1.0-1", "", reload + restart},
		{"postinstall", "abort-upgrade 0.2.0-1", "", reload},
		{"postinstall", "abort-remove", "", reload},
		{"postinstall", "1", "", reload}, // rpm: installation and upgrade
		{"postinstall", "2", "", reload + restart},

		{"preremove", "upgrade 0.2.0-1", kubelet, ""},
		{"preremove", "failed-upgrade 0.1.0-1", kubelet, ""},
		{"preremove", "1", kubelet, ""},
		{"preremove", "remove", kubelet, "exit code 1\n"},
		{"preremove", "0", kubelet, "exit code 1\n"},
		{"preremove", "remove", k3s, "exit code 1\n"},
		{"preremove", "remove", "", disabled},

		{"postremove", "upgrade 0.2.0-1", shim,
			reload + "/run/dnsconfigurer\n/run/dnsconfigurer/shim.sock\n/run/dnsconfigurer/shim.sock.lock\n"},
		{"postremove", "abort-upgrade 0.1.0-1", "", reload},
		{"postremove", "remove", shim + ";" + crio, reload},
		{"postremove", "0", shim, reload},
		{"postremove", "remove", shim + ";" + agent,
			reload + "/run/dnsconfigurer\n/run/dnsconfigurer/nri\n/run/dnsconfigurer/nri/agent\n"},
		{"postremove", "remove", state, reload + "/var/lib/dnsconfigurer\n/var/lib/dnsconfigurer/last-good.yaml\n"},
		{"postremove", "purge", state, reload},
	} {
		cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", hideNode)
		cmd.Env = append(os.Environ(), "ARGUMENTS="+tt.arguments, "NODE="+tt.node)
		var problems strings.Builder
		cmd.Stdin, cmd.Stderr = bytes.NewReader(read(t, filepath.Join("packaging", tt.script))), &problems
		out, err := cmd.Output()
		if err != nil || string(out) != tt.want {
			t.Errorf("%s %s after %q: %v, got\n%s%s\nwant\n%s", tt.script, tt.arguments, tt.node, err, out, &problems, tt.want)
		}
	}
}
