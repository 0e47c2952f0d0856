// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/node"
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
	Root           string // directory of the node's file system; systemd is only used with /
	Config         string // path of the ShimConfiguration on the node
	KubeletUnit    string
	RestartKubelet bool
	DryRun         bool // Install and Uninstall only write the changes of files
}

// Register adds the flags of all commands of a node: where its files are.
func (n *Node) Register(flags *pflag.FlagSet) {
	flags.StringVar(&n.Root, "root", "/", "`DIR` of the node's file system, such as a mounted image; systemd is only used with /")
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

// ConfigPath returns the path of the ShimConfiguration on this machine.
func (n *Node) ConfigPath() (string, error) { return Root(n.Root).Path(n.Config) }

// StatePath returns the path of the shim's state on this machine.
func (n *Node) StatePath() (string, error) { return Root(n.Root).Path(stateDirectory) }

// IsThisMachine reports whether the node is this machine.
func (n *Node) IsThisMachine() bool { return Root(n.Root).IsThisMachine() }

// installer returns the installer of the node. Without the root directory
// it is an error: a command would create one.
func (n *Node) installer() (*Installer, error) {
	if n.RestartKubelet && !n.IsThisMachine() {
		return nil, usage.Errorf("--restart-kubelet has no effect with --root %s: systemd is only used with /: leave it out", n.Root)
	}
	if info, err := os.Stat(n.Root); err != nil || !info.IsDir() {
		return nil, usage.Errorf("--root: %q is not a directory", n.Root)
	}
	path, err := n.ConfigPath()
	if err != nil {
		return nil, err
	}
	e, err := shim.LoadEndpoints(shim.Kind().FromFile(path))
	if err != nil {
		return nil, err
	}
	socket := config.SocketPath(e.Listen)
	dir, err1 := Root(n.Root).Path(filepath.Dir(socket)) // a bypass makes the socket itself a link
	state, err2 := n.StatePath()
	_, notBooted := os.Stat("/run/systemd/system") // sd_booted(3)
	systemctl, err := exec.LookPath("systemctl")
	if err != nil {
		systemctl = "/usr/bin/systemctl"
	}
	return &Installer{
		Root: Root(n.Root), KubeletUnit: n.KubeletUnit, Endpoints: e,
		Bypass:  &shim.Bypass{Socket: filepath.Join(dir, filepath.Base(socket)), Runtime: config.SocketPath(e.Runtime), State: state},
		Running: n.IsThisMachine() && notBooted == nil, Systemctl: Systemctl{systemctl}, RestartKubelet: n.RestartKubelet,
		Check: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, checkTimeout)
			defer cancel()
			return cri.Compare(ctx, e.Listen, e.Runtime)
		},
	}, errors.Join(err1, err2)
}

// checkSockets returns an error with which the shim would not start. The directories above an image are
// not those of the node, and another user than root does not own the directory of the socket.
func (n *Node) checkSockets(b *shim.Bypass) error {
	runtime, err := Root(n.Root).Path(b.Runtime)
	if err != nil {
		return err
	}
	if err := cri.CheckEndpoints(b.Socket, runtime); err != nil || !n.IsThisMachine() || os.Geteuid() != 0 {
		return err
	}
	return cri.CheckListen(b.Socket)
}

// Install calls [Installer.Install]. It writes the files that it creates to out, and what remains to
// be done. While the bypass is on, it is an error.
func (n *Node) Install(ctx context.Context, out io.Writer) error {
	i, err := n.installer()
	if err != nil {
		return err
	}
	if record, err := i.Bypass.Active(); err != nil || record != nil {
		return cmp.Or(err, fmt.Errorf("the bypass is on: end it with dnsconfigurer bypass off --root %s", n.Root))
	}
	if err := n.checkSockets(i.Bypass); err != nil {
		return err
	}
	files, err := i.Plan()
	if err != nil {
		return err
	}
	for _, f := range files {
		fmt.Fprintf(out, "create %s:\n%s", f.Path, f.Text)
	}
	if n.DryRun {
		return nil
	}
	waits, err := i.Install(ctx)
	switch {
	case err != nil:
		return err
	case waits || len(files) > 0 && !i.Running:
		_, err = fmt.Fprintf(out, "installed; the kubelet uses the shim after: systemctl restart %s\n", n.KubeletUnit)
	case len(files) == 0:
		_, err = fmt.Fprintf(out, "the kubelet is configured with %s already\n", i.Listen)
	}
	return err
}

// Uninstall calls [Installer.Uninstall]. It writes the names of the files that it removes to out, and
// what remains to be done.
func (n *Node) Uninstall(ctx context.Context, out io.Writer) error {
	i, err := n.installer()
	if err != nil {
		return err
	}
	files, err := i.PlanUninstall()
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.Text != "" {
			fmt.Fprintf(out, "remove %s\n", f.Path)
		}
	}
	if n.DryRun {
		return nil
	}
	stopped, err := i.Uninstall(ctx)
	switch {
	case err != nil:
		return err
	case stopped:
		_, err = fmt.Fprintln(out, "uninstalled: the units of the shim are disabled, and the kubelet is configured without it")
	default:
		_, err = fmt.Fprintf(out,
			"the kubelet may use the shim until: systemctl restart %s; then run this command again to stop the shim\n", n.KubeletUnit)
	}
	return err
}

// StartBypass calls [Installer.StartBypass].
func (n *Node) StartBypass(ctx context.Context, reason string) (began bool, err error) {
	i, err := n.installer()
	if err != nil {
		return false, err
	}
	return i.StartBypass(ctx, reason)
}

// EndBypass calls [Installer.EndBypass].
func (n *Node) EndBypass(ctx context.Context) (ended bool, err error) {
	i, err := n.installer()
	if err != nil {
		return false, err
	}
	return i.EndBypass(ctx)
}

// Status returns the state of the shim on the node, and that of its agent if the node is this
// machine.
func (n *Node) Status(ctx context.Context, agent node.StatusClient) (Status, error) {
	i, err := n.installer()
	if err != nil {
		return Status{}, err
	}
	path, err := n.ConfigPath()
	if err != nil {
		return Status{}, err
	}
	s := i.Status(ctx)
	if c, err := shim.Kind().FromFile(path).Load(); err == nil {
		s.Shim.Mode = string(c.Mode())
	}
	if !n.IsThisMachine() {
		return s, nil
	}
	switch status, err := agent.Status(ctx); {
	case err == nil:
		s.Agent = &status
	case !errors.Is(err, node.ErrNotServed):
		s.AgentError = err.Error()
	}
	return s, nil
}
