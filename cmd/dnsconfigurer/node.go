// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/internal/install"
)

// The flags of the commands that change a node or print its state.

func addNodeFlags(flags *pflag.FlagSet, n *install.Node) {
	flags.StringVar(&n.Root, "root", "/", "`DIR` of the node's file system, such as a mounted image; systemd is only used with /")
	flags.StringVar(&n.Config, "config", "/etc/dnsconfigurer/shim.yaml", "`FILE` with the ShimConfiguration")
}

func addKubeletFlag(flags *pflag.FlagSet, n *install.Node) {
	flags.StringVar(&n.KubeletUnit, "kubelet-unit", "kubelet.service", "`UNIT` of the kubelet")
}

func addRestartFlag(flags *pflag.FlagSet, n *install.Node) {
	flags.BoolVar(&n.RestartKubelet, "restart-kubelet", false, "restart the kubelet; running pods are not affected")
}

func addMetricsFlag(flags *pflag.FlagSet, n *install.Node) {
	flags.StringVar(&n.Metrics, "textfile-dir", "/var/lib/prometheus/node-exporter",
		"`DIR` of the text files of the node exporter, for the metric dnsconfigurer_bypass_active; not written if DIR does not exist")
}

func addDryRunFlag(flags *pflag.FlagSet, n *install.Node) {
	flags.BoolVar(&n.DryRun, "dry-run", false, "print the changes of files, and change nothing")
}
