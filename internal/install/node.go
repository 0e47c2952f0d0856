// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/shim"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
)

// checkTimeout limits the check that the shim forwards calls. A runtime that starts needs
// seconds.
const checkTimeout = 30 * time.Second

// stateDirectory is the directory of the shim's state on the node.
const stateDirectory = "/var/lib/dnsconfigurer"

// A Node is the node of the commands install, uninstall, bypass and status: the values of their
// flags.
type Node struct {
	Root           Root   // directory of the node's file system; systemd is only used with /
	Config         string // path of the ShimConfiguration on the node
	KubeletUnit    string
	RestartKubelet bool
	DryRun         bool // Install and Uninstall only write the changes of files
}

// Register adds the flags of all commands of a node: where its files are.
func (n *Node) Register(flags *pflag.FlagSet) {
	flags.StringVar((*string)(&n.Root), "root", "/",
		"`DIR` of the node's file system, such as a mounted image; systemd is only used with /")
	n.Config = "/etc/dnsconfigurer/shim.yaml" // of the shim's unit
}

// RegisterKubelet adds the flag of commands that read the configuration of the kubelet.
func (n *Node) RegisterKubelet(flags *pflag.FlagSet) {
	flags.StringVar(&n.KubeletUnit, "kubelet-unit", "kubelet.service", "`UNIT` of the kubelet")
}

// RegisterInstall adds the flags of the commands that change the configuration of the kubelet.
func (n *Node) RegisterInstall(flags *pflag.FlagSet) {
	n.Register(flags)
	n.RegisterKubelet(flags)
	flags.BoolVar(&n.RestartKubelet, "restart-kubelet", false, "restart the kubelet; running pods are not affected")
	flags.BoolVar(&n.DryRun, "dry-run", false, "print the changes of files, and change nothing")
}

// Installer returns the installer of the node. Without the root directory it is an error: a command would
// create one.
func (n Node) Installer() (*Installer, error) {
	if n.RestartKubelet && !n.Root.IsThisMachine() {
		return nil, usage.Errorf("--restart-kubelet has no effect with --root %s: systemd is only used with /: leave it out", n.Root)
	}
	if info, err := os.Stat(string(n.Root)); err != nil || !info.IsDir() {
		return nil, usage.Errorf("--root: %q is not a directory", n.Root)
	}
	path, err := n.Root.Path(n.Config)
	if err != nil {
		return nil, err
	}
	e, err := shim.LoadEndpoints(shim.Kind().FromFile(path))
	if err != nil {
		return nil, err
	}
	socket := config.SocketPath(e.Listen)
	dir, err1 := n.Root.Path(filepath.Dir(socket)) // a bypass makes the socket itself a link
	state, err2 := n.Root.Path(stateDirectory)
	_, notBooted := os.Stat("/run/systemd/system") // sd_booted(3)
	systemctl, err := exec.LookPath("systemctl")
	if err != nil {
		systemctl = "/usr/bin/systemctl"
	}
	return &Installer{
		Node: n, Endpoints: e,
		Bypass:  &shim.Bypass{Socket: filepath.Join(dir, filepath.Base(socket)), Runtime: config.SocketPath(e.Runtime), State: state},
		Running: n.Root.IsThisMachine() && notBooted == nil, Systemctl: Systemctl{systemctl},
		Check: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, checkTimeout)
			defer cancel()
			return cri.Compare(ctx, e.Listen, e.Runtime)
		},
	}, errors.Join(err1, err2)
}

// allUnits are the units of the shim.
var allUnits = []string{"dnsconfigurer-shim.socket", "dnsconfigurer-shim.service", "dnsconfigurer-bypass.service"}

// runningUnits are the units that run while the shim serves. systemd starts the other one, the
// bypass, when the service fails.
var runningUnits = []string{"dnsconfigurer-shim.socket", "dnsconfigurer-shim.service"}

// Systemctl is the program that controls systemd.
type Systemctl struct{ Program string }

// Run runs systemctl with arguments.
func (s Systemctl) Run(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, s.Program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// runUnits runs systemctl with arguments, followed by units.
func (s Systemctl) runUnits(ctx context.Context, units []string, args ...string) error {
	return s.Run(ctx, append(args, units...)...)
}

// isStartedWithShim reports whether a unit runs in a process that was started with the drop-in of
// Install: the process has its variable.
func (s Systemctl) isStartedWithShim(ctx context.Context, unit string) (with, running bool, err error) {
	out, err := exec.CommandContext(ctx, s.Program, "show", "--property=MainPID", "--value", unit).Output()
	if err != nil {
		return false, false, fmt.Errorf("systemctl show %s: %w", unit, err)
	}
	pid := strings.TrimSpace(string(out))
	if pid == "" || pid == "0" {
		return false, false, nil
	}
	environment, err := os.ReadFile(filepath.Join("/proc", pid, "environ"))
	if err != nil {
		return false, false, fmt.Errorf("reading the environment of %s: %w", unit, err)
	}
	return bytes.Contains(append([]byte{0}, environment...), []byte("\x00"+startedWith+"=")), true, nil
}

// settleTime is how long a kubelet must stay active after a restart: one that rejects its
// configuration ends within a second.
const settleTime = 3 * time.Second

// Restart restarts a unit and returns an error unless it stays active.
func (s Systemctl) Restart(ctx context.Context, unit string) error {
	if err := s.Run(ctx, "restart", unit); err != nil {
		return err
	}
	for deadline := time.Now().Add(settleTime); time.Now().Before(deadline); {
		if err := s.Run(ctx, "is-active", "--quiet", unit); err != nil {
			return fmt.Errorf("%s does not stay active, see journalctl -u %s: %w", unit, unit, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settleTime / 10):
		}
	}
	return nil
}
