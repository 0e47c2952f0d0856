// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/bypass"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/install"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
)

// checkTimeout limits the check that the shim forwards calls. A runtime that starts needs
// seconds.
const checkTimeout = 30 * time.Second

// nodeFlags are the flags of the commands that change a node or print its state.
type nodeFlags struct {
	root, config   string
	kubeletUnit    string
	metrics        string
	restartKubelet bool
}

func (f *nodeFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.root, "root", "/", "`DIR` of the node's file system, such as a mounted image; systemd is only used with /")
	cmd.Flags().StringVar(&f.config, "config", "/etc/dnsconfigurer/shim.yaml", "`FILE` with the ShimConfiguration")
}

func (f *nodeFlags) registerKubelet(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kubeletUnit, "kubelet-unit", "kubelet.service", "`UNIT` of the kubelet")
}

func (f *nodeFlags) registerRestart(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.restartKubelet, "restart-kubelet", false, "restart the kubelet; running pods are not affected")
}

func (f *nodeFlags) registerMetrics(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.metrics, "textfile-dir", "/var/lib/prometheus/node-exporter",
		"`DIR` of the text files of the node exporter, for the metric dnsconfigurer_bypass_active; a no-op if it does not exist")
}

// state is the directory of the shim's state on the node.
const state = "/var/lib/dnsconfigurer"

func (f *nodeFlags) path(path string) string { return filepath.Join(f.root, path) }

// isThisMachine reports whether the node is this machine.
func (f *nodeFlags) isThisMachine() bool { return filepath.Clean(f.root) == "/" }

// live reports whether the node is this machine and runs systemd.
func (f *nodeFlags) live() bool {
	if !f.isThisMachine() {
		return false
	}
	_, err := os.Stat("/run/systemd/system") // sd_booted(3)
	return err == nil
}

// endpoints returns the endpoints of the shim.
func (f *nodeFlags) endpoints() (config.Endpoints, error) {
	return config.LoadEndpoints(config.ShimKind().FromFile(f.path(f.config)))
}

func (f *nodeFlags) bypass(e config.Endpoints) *bypass.Bypass {
	b := &bypass.Bypass{Socket: f.path(config.SocketPath(e.Listen)), Runtime: config.SocketPath(e.Runtime), State: f.path(state)}
	if f.metrics != "" {
		b.Metrics = f.path(f.metrics)
	}
	return b
}

func (f *nodeFlags) bypassSwitch(e config.Endpoints) *install.Switch {
	return &install.Switch{Bypass: f.bypass(e), Systemctl: systemctl(), Systemd: f.live(), Check: f.check(e)}
}

func (f *nodeFlags) installer(e config.Endpoints) *install.Installer {
	return &install.Installer{
		Root: install.Root(f.root), KubeletUnit: f.kubeletUnit, Listen: e.Listen, Runtime: e.Runtime,
		Systemctl: systemctl(), RestartKubelet: f.restartKubelet, Check: f.check(e),
	}
}

// check returns a check that the shim forwards calls.
func (f *nodeFlags) check(e config.Endpoints) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		return cri.Compare(ctx, e.Listen, e.Runtime)
	}
}

func systemctl() install.Systemctl {
	path, err := exec.LookPath("systemctl")
	if err != nil {
		path = "/usr/bin/systemctl"
	}
	return install.Systemctl{Program: path}
}

// printf writes a line of progress.
func printf(cmd *cobra.Command, format string, args ...any) {
	fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
}
