// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/internal/install"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

// The flags of the commands that change a node or print its state.

func addNodeFlags(flags *pflag.FlagSet, n *install.Node) {
	flags.StringVar(&n.Root, "root", "/", "`DIR` of the node's file system, such as a mounted image; systemd is only used with /")
	flags.StringVar(&n.Config, "config", "/etc/dnsconfigurer/shim.yaml", "`FILE` with the ShimConfiguration")
}

func addKubeletFlag(flags *pflag.FlagSet, n *install.Node) {
	flags.StringVar(&n.KubeletUnit, "kubelet-unit", "kubelet.service", "`UNIT` of the kubelet")
}

func addRestartFlag(cmd *cobra.Command, n *install.Node) {
	cmd.Flags().BoolVar(&n.RestartKubelet, "restart-kubelet", false, "restart the kubelet; running pods are not affected")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if n.IsThisMachine() {
			return nil
		}
		return usage.CheckUnset(cmd, fmt.Sprintf("with --root %s: systemd is only used with /: leave it out", n.Root), "restart-kubelet")
	}
}

func addMetricsFlag(flags *pflag.FlagSet, n *install.Node) {
	flags.StringVar(&n.Metrics, "textfile-dir", "/var/lib/prometheus/node-exporter",
		"`DIR` of the text files of the node exporter, for the metric dnsconfigurer_bypass_active; not written if DIR does not exist")
}

func addDryRunFlag(flags *pflag.FlagSet, n *install.Node) {
	flags.BoolVar(&n.DryRun, "dry-run", false, "print the changes of files, and change nothing")
}
