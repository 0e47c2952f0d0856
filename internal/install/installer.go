// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
)

// An Installer puts the shim between the kubelet and the container runtime of a node. It keeps no
// record: its files say that they are its own, and the environment of the kubelet says whether it was
// started with them. So a call that was killed is completed, or undone, by another one.
type Installer struct {
	Root        Root
	KubeletUnit string
	Listen      string // endpoint of the shim
	Runtime     string // endpoint of the container runtime

	Running        bool // the node is this machine: its units are started and stopped, too
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
	if !k.Uses(config.SocketPath(i.Listen)) && !i.Root.sameSocket(k.Endpoint, config.SocketPath(i.Runtime)) {
		origin := k.Origin
		if origin == "" {
			origin = "the default"
		}
		return nil, fmt.Errorf("the kubelet uses the container runtime %s (%s), the shim forwards "+
			"to %s: set runtimeEndpoint of the shim's configuration to that of the kubelet", k.Endpoint, origin, i.Runtime)
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
	stop, err := i.start(ctx)
	undo = append(undo, func() error { return stop(later) })
	if err != nil {
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

// start enables and starts the units of the shim, and checks that it serves. stop reverses that for the
// units that were not enabled before: is-enabled succeeds if one of its units is enabled.
func (i *Installer) start(ctx context.Context) (stop func(context.Context) error, err error) {
	var before, added []string
	for _, unit := range allUnits {
		if i.runUnits(ctx, []string{unit}, "is-enabled", "--quiet") == nil {
			before = append(before, unit)
		} else {
			added = append(added, unit)
		}
	}
	stop = func(ctx context.Context) error {
		if len(added) == 0 {
			return nil
		}
		err := i.disable(ctx, added)
		if len(before) > 0 { // Also= of a unit has disabled them, too
			err = errors.Join(err, i.runUnits(ctx, before, "enable"))
		}
		return err
	}
	if err := i.runUnits(ctx, allUnits, "enable"); err != nil || !i.Running {
		return stop, err
	}
	if err := i.Systemctl.runUnits(ctx, runningUnits, "start"); err != nil {
		return stop, err
	}
	return stop, i.Check(ctx)
}

// disable disables and stops units.
func (i *Installer) disable(ctx context.Context, units []string) error {
	if !i.Running {
		return i.runUnits(ctx, units, "disable")
	}
	return i.runUnits(ctx, units, "disable", "--now")
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
func (i *Installer) verify(shim bool) error {
	k, err := ReadKubelet(i.Root, i.KubeletUnit)
	switch {
	case err != nil:
		return err
	case k.Uses(config.SocketPath(i.Listen)) == shim:
		return nil
	case shim:
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

// Uninstall removes the files that Install has written. It stops the shim if the kubelet runs without
// it, after a restart by this call or otherwise. If a step fails, the steps before are undone, except
// when the shim cannot be stopped: a kubelet with a shim that is half stopped would lose its runtime.
// Another call tries again.
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
	if err := i.disable(ctx, allUnits); err != nil {
		return false, fmt.Errorf("the kubelet is configured without the shim, but the shim is not stopped: "+
			"run dnsconfigurer uninstall again: %w", err)
	}
	return true, nil
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
