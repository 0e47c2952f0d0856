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

	"github.com/dnsconfigurer/dnsconfigurer/internal/bypass"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/node"
	"github.com/dnsconfigurer/dnsconfigurer/internal/shim"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
)

// checkTimeout limits the check that the shim forwards calls. A runtime that starts needs
// seconds.
const checkTimeout = 30 * time.Second

// metricsDirectory is the directory of the node exporter's text files on the node, as in Debian. The metric
// of the bypass is not written if it does not exist.
const metricsDirectory = "/var/lib/prometheus/node-exporter"

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

// runsSystemd reports whether the node is this machine and runs systemd.
func (n *Node) runsSystemd() bool {
	if !n.IsThisMachine() {
		return false
	}
	_, err := os.Stat("/run/systemd/system") // sd_booted(3)
	return err == nil
}

// endpoints returns the endpoints of the shim. Without the root directory it is an error: a command
// would create one.
func (n *Node) endpoints() (shim.Endpoints, error) {
	if n.RestartKubelet && !n.IsThisMachine() {
		return shim.Endpoints{},
			usage.Errorf("--restart-kubelet has no effect with --root %s: systemd is only used with /: leave it out", n.Root)
	}
	if info, err := os.Stat(n.Root); err != nil || !info.IsDir() {
		return shim.Endpoints{}, usage.Errorf("--root: %q is not a directory", n.Root)
	}
	path, err := n.ConfigPath()
	if err != nil {
		return shim.Endpoints{}, err
	}
	return shim.LoadEndpoints(shim.Kind().FromFile(path))
}

// bypass returns the bypass of the node, with paths on this machine except that of the runtime.
func (n *Node) bypass(e shim.Endpoints) (*bypass.Bypass, error) {
	socket := config.SocketPath(e.Listen)
	dir, err1 := Root(n.Root).Path(filepath.Dir(socket)) // a bypass makes the socket itself a link
	state, err2 := n.StatePath()
	metrics, err3 := Root(n.Root).Path(metricsDirectory)
	return &bypass.Bypass{
		Socket: filepath.Join(dir, filepath.Base(socket)), Runtime: config.SocketPath(e.Runtime), State: state, Metrics: metrics,
	}, errors.Join(err1, err2, err3)
}

func (n *Node) bypassSwitch() (*Switch, error) {
	e, err := n.endpoints()
	if err != nil {
		return nil, err
	}
	b, err := n.bypass(e)
	return &Switch{Bypass: b, Systemctl: findSystemctl(), Systemd: n.runsSystemd(), Check: check(e)}, err
}

func (n *Node) installer(e shim.Endpoints) *Installer {
	return &Installer{
		Root: Root(n.Root), KubeletUnit: n.KubeletUnit, Listen: e.Listen, Runtime: e.Runtime,
		Running: n.IsThisMachine(), Systemctl: findSystemctl(), RestartKubelet: n.RestartKubelet, Check: check(e),
	}
}

// checkSockets returns an error with which the shim would not start. The directories above an image are
// not those of the node, and another user than root does not own the directory of the socket.
func (n *Node) checkSockets(b *bypass.Bypass) error {
	runtime, err := Root(n.Root).Path(b.Runtime)
	if err != nil {
		return err
	}
	if err := cri.CheckEndpoints(b.Socket, runtime); err != nil || !n.IsThisMachine() || os.Geteuid() != 0 {
		return err
	}
	return cri.CheckListen(b.Socket)
}

// check returns a check that the shim forwards calls.
func check(e shim.Endpoints) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		return cri.Compare(ctx, e.Listen, e.Runtime)
	}
}

func findSystemctl() Systemctl {
	path, err := exec.LookPath("systemctl")
	if err != nil {
		path = "/usr/bin/systemctl"
	}
	return Systemctl{Program: path}
}

// Install calls [Installer.Install]. It writes the changes of files to out, and what remains to
// be done. While the bypass is on, it is an error.
func (n *Node) Install(ctx context.Context, out io.Writer) error {
	e, err := n.endpoints()
	if err != nil {
		return err
	}
	b, err := n.bypass(e)
	if err != nil {
		return err
	}
	if record, err := b.Active(); err != nil || record != nil {
		return cmp.Or(err, errors.New("the bypass is on: end it with dnsconfigurer bypass off"))
	}
	if err := n.checkSockets(b); err != nil {
		return err
	}
	i := n.installer(e)
	files, err := i.Plan()
	if err != nil {
		return err
	}
	for _, f := range files {
		fmt.Fprint(out, f)
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
		_, err = fmt.Fprintf(out, "the kubelet is configured with %s already\n", e.Listen)
	}
	return err
}

// Uninstall calls [Installer.Uninstall] and ends the bypass. It writes the changes of files to
// out, and what remains to be done.
func (n *Node) Uninstall(ctx context.Context, out io.Writer) error {
	e, err := n.endpoints()
	if err != nil {
		return err
	}
	b, err := n.bypass(e)
	if err != nil {
		return err
	}
	i := n.installer(e)
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
	if err != nil {
		return err
	}
	if !stopped {
		_, err := fmt.Fprintf(out,
			"the kubelet may use the shim until: systemctl restart %s; then run this command again to stop the shim\n", n.KubeletUnit)
		return err
	}
	if err := b.End(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "uninstalled: the units of the shim are disabled, and the kubelet is configured without it")
	return err
}

// StartBypass calls [Switch.On].
func (n *Node) StartBypass(ctx context.Context, reason string) (began bool, err error) {
	s, err := n.bypassSwitch()
	if err != nil {
		return false, err
	}
	return s.On(ctx, reason)
}

// EndBypass calls [Switch.Off].
func (n *Node) EndBypass(ctx context.Context) (ended bool, err error) {
	s, err := n.bypassSwitch()
	if err != nil {
		return false, err
	}
	return s.Off(ctx)
}

// Status returns the state of the shim on the node, and that of its agent if the node is this
// machine.
func (n *Node) Status(ctx context.Context, agent node.StatusClient) (Status, error) {
	e, err := n.endpoints()
	if err != nil {
		return Status{}, err
	}
	b, err1 := n.bypass(e)
	path, err2 := n.ConfigPath()
	if err := errors.Join(err1, err2); err != nil {
		return Status{}, err
	}
	s := n.installer(e).Status(ctx, b, e.HTTP)
	if c, err := shim.Kind().FromFile(path).Load(); err == nil {
		s.Shim.Mode = string(c.Mode())
	}
	if n.IsThisMachine() {
		s.addAgent(ctx, agent)
	}
	return s, nil
}

// addAgent adds the state of the agent if one runs.
func (s *Status) addAgent(ctx context.Context, client node.StatusClient) {
	agent, err := client.Status(ctx)
	switch {
	case err == nil:
		s.Agent = &agent
	case !errors.Is(err, node.ErrNotServed):
		s.AgentError = err.Error()
	}
}
