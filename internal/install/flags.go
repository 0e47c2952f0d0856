// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import "github.com/spf13/pflag"

// Register adds the flags of all commands of a node: where its files are.
func (n *Node) Register(flags *pflag.FlagSet) {
	flags.StringVar(&n.Root, "root", "/", "`DIR` of the node's file system, such as a mounted image; systemd is only used with /")
	flags.StringVar(&n.Config, "config", "/etc/dnsconfigurer/shim.yaml", "`FILE` with the ShimConfiguration")
}

// RegisterKubelet adds the flag of commands that read the configuration of the kubelet.
func (n *Node) RegisterKubelet(flags *pflag.FlagSet) {
	flags.StringVar(&n.KubeletUnit, "kubelet-unit", "kubelet.service", "`UNIT` of the kubelet")
}

// RegisterRestart adds the flag of commands after which the kubelet must be restarted.
func (n *Node) RegisterRestart(flags *pflag.FlagSet) {
	flags.BoolVar(&n.RestartKubelet, "restart-kubelet", false, "restart the kubelet; running pods are not affected")
}

// RegisterMetrics adds the flag of commands that begin or end a bypass.
func (n *Node) RegisterMetrics(flags *pflag.FlagSet) {
	flags.StringVar(&n.Metrics, "textfile-dir", "/var/lib/prometheus/node-exporter",
		"`DIR` of the text files of the node exporter, for the metric dnsconfigurer_bypass_active; not written if DIR does not exist")
}

// RegisterDryRun adds the flag of commands that change the configuration of the kubelet.
func (n *Node) RegisterDryRun(flags *pflag.FlagSet) {
	flags.BoolVar(&n.DryRun, "dry-run", false, "print the changes of files, and change nothing")
}
