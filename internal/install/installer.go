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
	"path/filepath"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/shim"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
)

// An Installer puts the shim between the kubelet and the container runtime of a node. It keeps no
// record: its files say that they are its own, and the environment of the kubelet says whether it was
// started with them. So a call that was killed is completed, or undone, by another one.
type Installer struct {
	Node
	shim.Endpoints
	Bypass *shim.Bypass

	Running   bool // the node is this machine and runs systemd: units are started and stopped, too
	Systemctl Systemctl
	Check     func(context.Context) error // returns an error unless the shim forwards calls
}

// Install starts the shim, checks that it forwards calls, and configures the kubelet. It writes the files that
// it creates to out, and what remains to be done. If a step fails, the steps before are undone. A kubelet that
// was started with the shim is not restarted. While the bypass is on, Install is an error.
func (i *Installer) Install(ctx context.Context, out io.Writer) error {
	if record, err := i.Bypass.Active(); err != nil || record != nil {
		return cmp.Or(err, fmt.Errorf("the bypass is on: end it with dnsconfigurer bypass off --root %s", i.Root))
	}
	if err := i.checkSockets(); err != nil {
		return err
	}
	files, err := i.plan()
	if err != nil {
		return err
	}
	for _, f := range files {
		fmt.Fprintf(out, "create %s:\n%s", f.Path, f.Text)
	}
	if i.DryRun {
		return nil
	}
	enabled := i.runUnits(ctx, allUnits, "is-enabled", "--quiet") == nil // one of them
	waits := false
	err = i.start(ctx)
	if err == nil {
		waits, err = i.configure(ctx, files, true)
	}
	if err != nil && !enabled {
		err = errors.Join(err, i.disable(context.WithoutCancel(ctx)))
	}
	switch {
	case err != nil:
		return err
	case waits || len(files) > 0 && !i.Running:
		_, err = fmt.Fprintf(out, "installed; the kubelet uses the shim after: systemctl restart %s\n", i.KubeletUnit)
	case len(files) == 0:
		_, err = fmt.Fprintf(out, "the kubelet is configured with %s already\n", i.Listen)
	}
	return err
}

// checkSockets returns an error with which the shim would not start. The directories above an image are
// not those of the node, and another user than root does not own the directory of the socket.
func (i *Installer) checkSockets() error {
	runtime, err := i.Root.Path(i.Bypass.Runtime)
	if err != nil {
		return err
	}
	if err := cri.CheckEndpoints(i.Bypass.Socket, runtime); err != nil || !i.Root.IsThisMachine() || os.Geteuid() != 0 {
		return err
	}
	return cri.CheckListen(i.Bypass.Socket)
}

// plan returns the files that Install writes, none if the kubelet is configured with the shim.
func (i *Installer) plan() ([]File, error) {
	k, err := ReadKubelet(i.Root, i.KubeletUnit)
	if err != nil {
		return nil, err
	}
	if !k.Uses(config.SocketPath(i.Listen)) && !k.Uses(config.SocketPath(i.Runtime)) {
		return nil, fmt.Errorf("the kubelet uses the container runtime %s (%s), the shim forwards to %s: "+
			"set runtimeEndpoint of the shim's configuration to that of the kubelet",
			k.Endpoint, cmp.Or(k.Origin, "the default"), i.Runtime)
	}
	return k.Files(i.Listen)
}

// start enables and starts the units of the shim, and checks that it serves.
func (i *Installer) start(ctx context.Context) error {
	if err := i.runUnits(ctx, allUnits, "enable"); err != nil || !i.Running {
		return err
	}
	if err := i.Systemctl.runUnits(ctx, runningUnits, "start"); err != nil {
		return err
	}
	return i.Check(ctx)
}

// disable disables and stops the units of the shim.
func (i *Installer) disable(ctx context.Context) error {
	if !i.Running {
		return i.runUnits(ctx, allUnits, "disable")
	}
	return i.runUnits(ctx, allUnits, "disable", "--now")
}

// runUnits is [Systemctl.runUnits] for the node.
func (i *Installer) runUnits(ctx context.Context, units []string, args ...string) error {
	if !i.Running {
		args = append([]string{"--root=" + string(i.Root)}, args...)
	}
	return i.Systemctl.runUnits(ctx, units, args...)
}

// configure writes the files to configure the kubelet with the shim, or removes them to configure it without
// the shim. waits reports whether the kubelet was started the other way: it is restarted if that was requested.
// If a step fails, the steps before are undone.
func (i *Installer) configure(ctx context.Context, files []File, with bool) (waits bool, err error) {
	defer func() {
		if later := context.WithoutCancel(ctx); err != nil && !(with && len(files) == 0) {
			err = errors.Join(err, i.change(files, !with), i.reload(later), i.restart(later))
		}
	}()
	if err := i.change(files, with); err != nil {
		return false, err
	}
	if err := i.verify(with); err != nil {
		return false, err
	}
	if err := i.reload(ctx); err != nil || !i.Running {
		return false, err
	}
	was, running, err := i.Systemctl.isStartedWithShim(ctx, i.KubeletUnit)
	waits = running && was != with && (!with || i.Root.isOwn(dropInPath(i.KubeletUnit))) // else configured by hand
	if err != nil || !waits || !i.RestartKubelet {
		return waits, err
	}
	return false, i.restart(ctx)
}

// change writes the files, or removes them. A file without a text did not exist, and is only removed.
func (i *Installer) change(files []File, write bool) (err error) {
	for _, f := range files {
		switch {
		case err != nil:
		case !write:
			err = i.Root.remove(f.Path)
		case f.Text != "":
			err = i.Root.write(f.Path, f.Text)
		}
	}
	return err
}

// verify returns an error unless the kubelet is configured with the shim, or without it.
func (i *Installer) verify(with bool) error {
	k, err := ReadKubelet(i.Root, i.KubeletUnit)
	switch {
	case err != nil:
		return err
	case k.Uses(config.SocketPath(i.Listen)) == with:
		return nil
	case with:
		return fmt.Errorf("%s still configures the kubelet with %s: remove it there", k.Origin, k.Endpoint)
	default:
		return fmt.Errorf("%s configures the kubelet with the shim, and was written by hand: remove it there", k.Origin)
	}
}

// reload makes systemd read the units again.
func (i *Installer) reload(ctx context.Context) error {
	if !i.Running {
		return nil
	}
	return i.Systemctl.Run(ctx, "daemon-reload")
}

// restart restarts the kubelet if that was requested.
func (i *Installer) restart(ctx context.Context) error {
	if !i.Running || !i.RestartKubelet {
		return nil
	}
	return i.Systemctl.Restart(ctx, i.KubeletUnit)
}

// Uninstall removes the files that Install has written, and ends the bypass. It stops the shim if the
// kubelet runs without it, after a restart by this call or otherwise. It writes the names of the files to out,
// and what remains to be done. If a step fails, the steps before are undone, except when the shim cannot be
// stopped: a kubelet with a shim that is half stopped would lose its runtime. Another call tries again.
func (i *Installer) Uninstall(ctx context.Context, out io.Writer) error {
	k, err := ReadKubelet(i.Root, i.KubeletUnit)
	if err != nil {
		return err
	}
	files, err := k.ownFiles()
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.Text != "" {
			fmt.Fprintf(out, "remove %s\n", f.Path)
		}
	}
	if i.DryRun {
		return nil
	}
	waits, err := i.configure(ctx, files, false)
	if err != nil {
		return err
	}
	if dir, err := i.Root.Path(filepath.Dir(dropInPath(i.KubeletUnit))); err == nil {
		_ = os.Remove(dir) // fails if it has other files
	}
	if waits {
		_, err := fmt.Fprintf(out, "the kubelet may use the shim until: systemctl restart %s; "+
			"then run this command again to stop the shim\n", i.KubeletUnit)
		return err
	}
	if err := i.disable(ctx); err != nil {
		return fmt.Errorf("the kubelet is configured without the shim, but the shim is not stopped: "+
			"run dnsconfigurer uninstall again: %w", err)
	}
	if err := i.Bypass.End(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "uninstalled: the units of the shim are disabled, and the kubelet is configured without it")
	return err
}

// StartBypass begins the bypass and stops the shim. began is false if the bypass was on before. If the
// units cannot be stopped, it has begun nevertheless.
func (i *Installer) StartBypass(ctx context.Context, reason string) (began bool, err error) {
	active, _ := i.Bypass.Active() // Begin reports the error
	if err := i.Bypass.Begin(reason); err != nil {
		return false, err
	}
	if i.Running {
		err = i.Systemctl.runUnits(ctx, runningUnits, "stop")
	}
	return active == nil, err
}

// EndBypass starts the shim and ends the bypass. If the shim does not serve, the bypass stays. ended is
// false if the bypass was off before.
func (i *Installer) EndBypass(ctx context.Context) (ended bool, err error) {
	record, err := i.Bypass.Active()
	if err != nil {
		return false, err
	}
	if err := i.Bypass.End(); err != nil || !i.Running || record == nil {
		return err == nil && record != nil, err
	}
	_ = i.Systemctl.runUnits(ctx, allUnits, "reset-failed") // fails for a unit that is not loaded
	err = i.Systemctl.runUnits(ctx, runningUnits, "start")
	if err == nil {
		err = i.Check(ctx)
	}
	if err == nil {
		return true, nil
	}
	if again := i.Bypass.Begin(record.Reason); again != nil {
		return false, fmt.Errorf("%w; the bypass cannot be restored: %w", err, again)
	}
	_ = i.Systemctl.runUnits(context.WithoutCancel(ctx), runningUnits, "stop") // the link matters, not the unit
	return false, fmt.Errorf("the shim does not serve, the bypass stays: %w", err)
}
