// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
)

// An Installer puts the shim between the kubelet and the container runtime of a node.
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

// Plan returns the edits that Install makes, none if the kubelet is configured with the shim.
func (i *Installer) Plan() ([]Edit, error) {
	k, err := ReadKubelet(i.Root, i.KubeletUnit)
	if err != nil {
		return nil, err
	}
	if !k.Uses(config.SocketPath(i.Listen)) && !i.Root.sameSocket(k.Endpoint, config.SocketPath(i.Runtime)) {
		return nil, fmt.Errorf("the kubelet uses the container runtime %s (%s), the shim forwards "+
			"to %s: set runtimeEndpoint of the shim's configuration to that of the kubelet",
			k.Endpoint, origin(k), i.Runtime)
	}
	return k.Edits(i.Listen)
}

func origin(k Kubelet) string {
	if k.Origin == "" {
		return "the default"
	}
	return k.Origin
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
// fails, the steps before are undone. If the kubelet is configured with the shim already, it is
// restarted only if it has not been restarted since.
func (i *Installer) Install(ctx context.Context) (err error) {
	edits, err := i.Plan()
	if err != nil {
		return err
	}
	before, err := loadRecord(i.Root)
	if err != nil {
		return err
	}
	if err := i.prepare(edits, before); err != nil {
		return err
	}
	var undo steps
	defer func() { err = undo.undoOn(err) }()
	later := context.WithoutCancel(ctx)
	stop, err := i.start(ctx)
	undo = append(undo, func() error { return stop(later) })
	if err != nil {
		return err
	}
	if len(edits) == 0 {
		return i.restartWaiting(ctx)
	}
	now := before.add(edits)
	undo = append(undo, func() error { return before.save(i.Root) })
	if err := now.save(i.Root); err != nil {
		return err
	}
	undo = append(undo, func() error { return i.reload(later) })
	for _, e := range edits {
		undo = append(undo, func() error { return e.undo(i.Root) })
		if err := e.apply(i.Root); err != nil {
			return err
		}
	}
	if err := i.verify(true); err != nil {
		return err
	}
	if now.Invocation, err = i.readEdits(ctx); err != nil {
		return err
	}
	if err := now.save(i.Root); err != nil {
		return err
	}
	return i.restart(ctx)
}

// unitPath is where systemctl enables a unit.
const unitPath = "/etc/systemd/system/dnsconfigurer-shim.service"

// prepare returns an error unless the files of edits, of the record and of the units can be written. It
// removes what an installation that was killed has left beside the files that are recorded.
func (i *Installer) prepare(edits []Edit, before record) error {
	paths := []string{recordPath, unitPath}
	for _, e := range edits {
		paths = append(paths, e.Path)
	}
	for _, path := range paths {
		if err := i.Root.checkWritable(path); err != nil {
			return err
		}
	}
	for _, e := range before.Edits {
		if err := i.Root.removeLeftovers(e.Path); err != nil {
			return err
		}
	}
	return nil
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

// reload makes systemd read the units again, and restarts the kubelet if that was requested.
func (i *Installer) reload(ctx context.Context) error {
	if _, err := i.readEdits(ctx); err != nil {
		return err
	}
	return i.restart(ctx)
}

// readEdits makes systemd read the units again, and returns the invocation of the kubelet that then
// runs. This kubelet may have started before the edits: systemd restarts one that fails at any time.
func (i *Installer) readEdits(ctx context.Context) (invocation string, err error) {
	if !i.Running {
		return "", nil
	}
	if err := i.Systemctl.Run(ctx, "daemon-reload"); err != nil {
		return "", err
	}
	return i.invocation(ctx)
}

// restart restarts the kubelet if that was requested.
func (i *Installer) restart(ctx context.Context) error {
	if !i.Running || !i.RestartKubelet {
		return nil
	}
	return i.Systemctl.Restart(ctx, i.KubeletUnit)
}

// invocation returns the invocation of the kubelet, "" if none runs on this machine.
func (i *Installer) invocation(ctx context.Context) (string, error) {
	if !i.Running {
		return "", nil
	}
	return i.Systemctl.invocation(ctx, i.KubeletUnit)
}

// awaitsRestart reports whether the kubelet has not been restarted since systemd has read the edits.
func (i *Installer) awaitsRestart(ctx context.Context) (bool, error) {
	rec, err := loadRecord(i.Root)
	if err != nil || rec.Invocation == "" {
		return false, err
	}
	now, err := i.invocation(ctx)
	return now == rec.Invocation, err
}

// restartWaiting restarts the kubelet if that was requested, and if it awaits the restart.
func (i *Installer) restartWaiting(ctx context.Context) error {
	if !i.RestartKubelet {
		return nil
	}
	if waits, err := i.awaitsRestart(ctx); err != nil || !waits {
		return err
	}
	return i.reload(ctx)
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
		return fmt.Errorf("%s configures the kubelet with the shim, and was changed since the "+
			"installation or written by hand: remove it there", k.Origin)
	}
}

// PlanUninstall returns the edits that Uninstall makes.
func (i *Installer) PlanUninstall() ([]Edit, error) {
	rec, err := loadRecord(i.Root)
	if err != nil {
		return nil, err
	}
	var edits []Edit
	for _, e := range slices.Backward(rec.Edits) {
		back, err := e.reverse(i.Root)
		if err != nil {
			return nil, err
		}
		if back != nil {
			edits = append(edits, *back)
		}
	}
	return edits, nil
}

// Uninstall restores the configuration of the kubelet as it was before Install. It stops the shim if
// the kubelet has been restarted since, by this call or otherwise: until then the kubelet uses the
// shim. If a step fails, the steps before are undone, except when the shim cannot be stopped: a
// kubelet with a shim that is half stopped would lose its runtime. Another call tries again.
func (i *Installer) Uninstall(ctx context.Context) (stopped bool, err error) {
	rec, err := loadRecord(i.Root)
	if err != nil {
		return false, err
	}
	if len(rec.Edits) > 0 {
		err = i.restore(ctx, rec)
	} else if err = i.verify(false); err == nil {
		err = i.restartWaiting(ctx)
	}
	if err != nil {
		return false, err
	}
	if waits, err := i.awaitsRestart(ctx); err != nil || waits {
		return false, err
	}
	if err := i.disable(ctx, allUnits); err != nil {
		return false, fmt.Errorf("the kubelet is configured without the shim, but the shim is not stopped: "+
			"run dnsconfigurer uninstall again: %w", err)
	}
	return true, record{}.save(i.Root)
}

// restore undoes the edits of the record, restarts the kubelet if that was requested, and keeps the
// invocation of the kubelet that may use the shim. If a step fails, the steps before are undone.
func (i *Installer) restore(ctx context.Context, rec record) (err error) {
	later := context.WithoutCancel(ctx)
	undo := steps{func() error { return i.reload(later) }}
	defer func() { err = undo.undoOn(err) }()
	for _, e := range slices.Backward(rec.Edits) {
		if now, err := i.Root.read(e.Path); err == nil {
			undo = append(undo, func() error { return Edit{Path: e.Path, After: now}.apply(i.Root) })
		}
		if err := e.undo(i.Root); err != nil {
			return err
		}
	}
	if err := i.verify(false); err != nil {
		return err
	}
	used := record{}
	if used.Invocation, err = i.readEdits(ctx); err != nil {
		return err
	}
	if err := i.restart(ctx); err != nil {
		return err
	}
	return used.save(i.Root)
}
