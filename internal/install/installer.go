// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/shim"
)

// An Installer puts the shim between the kubelet and the container runtime of a node. It keeps no
// record: its files say that they are its own, and the environment of the kubelet says whether it was
// started with them. So a call that was killed is completed, or undone, by another one.
type Installer struct {
	shim.Endpoints
	Root        Root
	KubeletUnit string
	Bypass      *shim.Bypass

	Running        bool // the node is this machine and runs systemd: units are started and stopped, too
	Systemctl      Systemctl
	RestartKubelet bool                        // the kubelet reads its configuration when it starts
	Check          func(context.Context) error // returns an error unless the shim forwards calls
}

// Plan returns the files that Install writes, none if the kubelet is configured with the shim.
func (i *Installer) Plan() ([]File, error) {
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

// steps are the functions that undo what was done.
type steps []func() error

// undoOn undoes the steps if err is not nil, the last one first. It returns err, joined with the
// errors of the steps.
func (s steps) undoOn(err error) error {
	if err == nil {
		return nil
	}
	for _, undo := range slices.Backward(s) {
		err = errors.Join(err, undo())
	}
	return err
}

// Install starts the shim, checks that it forwards calls, and configures the kubelet. If a step
// fails, the steps before are undone. A kubelet that was started with the shim is not restarted. waits
// reports whether the kubelet runs without the shim until it is restarted.
func (i *Installer) Install(ctx context.Context) (waits bool, err error) {
	files, err := i.Plan()
	if err != nil {
		return false, err
	}
	var undo steps
	defer func() { err = undo.undoOn(err) }()
	later := context.WithoutCancel(ctx)
	if i.runUnits(ctx, allUnits, "is-enabled", "--quiet") != nil { // none of them
		undo = append(undo, func() error { return i.disable(later) })
	}
	if err := i.start(ctx); err != nil {
		return false, err
	}
	if len(files) > 0 {
		undo = append(undo, func() error { return errors.Join(i.reload(later), i.restart(later)) })
	}
	for _, f := range files {
		undo = append(undo, func() error { return i.Root.remove(f.Path) })
		if err := i.Root.write(f.Path, f.Text); err != nil {
			return false, err
		}
	}
	if err := i.verify(true); err != nil {
		return false, err
	}
	if err := i.reload(ctx); err != nil || !i.Running {
		return false, err
	}
	with, running, err := i.Systemctl.isStartedWithShim(ctx, i.KubeletUnit)
	if waits = running && !with && i.hasDropIn(); err != nil || !waits || !i.RestartKubelet {
		return waits, err
	}
	return false, i.restart(ctx)
}

// hasDropIn reports whether the drop-in of Install exists. Without it, the kubelet was configured by hand.
func (i *Installer) hasDropIn() bool {
	text, err := i.Root.read(dropInPath(i.KubeletUnit))
	return err == nil && strings.HasPrefix(text, header)
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

// PlanUninstall returns the files that Uninstall removes.
func (i *Installer) PlanUninstall() (files []File, err error) {
	k, err := ReadKubelet(i.Root, i.KubeletUnit)
	if err != nil {
		return nil, err
	}
	for _, path := range k.ownPaths() {
		text, err := i.Root.read(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err != nil || strings.HasPrefix(text, header) {
			files = append(files, File{path, text})
		}
	}
	return files, nil
}

// Uninstall removes the files that Install has written, and ends the bypass. It stops the shim if the
// kubelet runs without it, after a restart by this call or otherwise. If a step fails, the steps before
// are undone, except when the shim cannot be stopped: a kubelet with a shim that is half stopped would
// lose its runtime. Another call tries again.
func (i *Installer) Uninstall(ctx context.Context) (stopped bool, err error) {
	files, err := i.PlanUninstall()
	if err != nil {
		return false, err
	}
	if err := i.restore(ctx, files); err != nil {
		return false, err
	}
	if i.Running {
		if with, _, err := i.Systemctl.isStartedWithShim(ctx, i.KubeletUnit); err != nil || with {
			return false, err
		}
	}
	if err := i.disable(ctx); err != nil {
		return false, fmt.Errorf("the kubelet is configured without the shim, but the shim is not stopped: "+
			"run dnsconfigurer uninstall again: %w", err)
	}
	return true, i.Bypass.End()
}

// restore removes the files, and restarts a kubelet that was started with them if that was requested.
func (i *Installer) restore(ctx context.Context, files []File) (err error) {
	var undo steps
	defer func() { err = undo.undoOn(err) }()
	later := context.WithoutCancel(ctx)
	undo = append(undo, func() error { return errors.Join(i.reload(later), i.restart(later)) })
	for _, f := range files {
		if f.Text != "" {
			undo = append(undo, func() error { return i.Root.write(f.Path, f.Text) })
		}
		if err := i.Root.remove(f.Path); err != nil {
			return err
		}
	}
	if err := i.verify(false); err != nil {
		return err
	}
	if dir, err := i.Root.Path(filepath.Dir(dropInPath(i.KubeletUnit))); err == nil {
		_ = os.Remove(dir) // fails if it has other files
	}
	if err := i.reload(ctx); err != nil || !i.Running {
		return err
	}
	if with, _, err := i.Systemctl.isStartedWithShim(ctx, i.KubeletUnit); err != nil || !with {
		return err
	}
	return i.restart(ctx)
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
