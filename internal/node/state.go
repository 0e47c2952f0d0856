// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"sync"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// State is what is known about the file of a sandbox.
type State uint8

// The states.
const (
	New      State = iota // no container yet, or the pod is not known
	Kubelet               // the kubelet's text, which is the decision, or would be replaced in another mode
	Ours                  // our text, with the mark or by the edit of a shim
	Foreign               // the pod's mount or text, or wrong node facts: left alone
	Restored              // the kubelet's text by command: left alone
)

// follows reports whether the file is compared with decisions.
func (s State) follows() bool { return s == Kubelet || s == Ours }

// Event is what a State changes for.
type Event uint8

// The events. They occur when the path of the file is known and the pod was looked up, except Requested.
const (
	Ready     Event = iota // for the first time
	Verify                 // by the timer
	Change                 // of the host's file, the settings or the annotations, or the command refresh --all
	Command                // the command refresh for this pod
	Restore                // the command restore
	Requested              // the outcome of the request that created the sandbox is known
)

// transition processes an event, and returns the next State.
type transition func(*Applier, *step) State

// following are the transitions of a file that follows changes.
var following = map[Event]transition{
	Verify: (*Applier).compare, Change: (*Applier).reconsider, Command: (*Applier).reconsider,
	Restore: (*Applier).writeBack, Requested: forget,
}

// transitions are all transitions: only they change a State. An event without one is ignored.
var transitions = map[State]map[Event]transition{
	New: {
		Ready: (*Applier).decideFile, Change: (*Applier).decideAgain, Command: (*Applier).decideAgain,
		Restore: (*Applier).writeBack,
	},
	Kubelet: following, Ours: following,
	Foreign: {
		Change: (*Applier).decideAgain, Command: (*Applier).decideAgain, Restore: (*Applier).writeBack, Requested: forget,
	},
	Restored: {
		Ready: (*Applier).reportRestored, Change: (*Applier).reportRestored, Command: (*Applier).resume,
	},
}

// step is the processing of an event of a sandbox, whose mutex is held.
type step struct {
	settings *Settings
	*sandbox
	host  func() cri.HostFiles // read once, when they are needed
	cause cause
	first bool // no container has the file yet, for Ready

	decided *policy.Decision // see decision

	result  RefreshResult // "": the file was not compared
	detail  string        // why
	failure error         // of Restore
}

func newStep(settings *Settings, s *sandbox) *step {
	return &step{settings: settings, sandbox: s, host: sync.OnceValue(settings.Hook.HostFiles)}
}

// process processes an event.
func (a *Applier) process(e Event, st *step) {
	if next := transitions[st.state][e]; next != nil {
		st.state = next(a, st)
	}
	switch {
	case st.result != "" || st.detail != "":
	case st.state == Restored:
		st.detail = "the file was restored"
	default:
		st.detail = "the file is left unchanged: " + string(st.reported)
	}
}

// forget lets the file be decided again.
func forget(*Applier, *step) State { return New }

// decideFile decides about a file that has no State yet, and reports the outcome. The State stays New while
// the pod is not known.
func (a *Applier) decideFile(st *step) State {
	next, r := a.write(st)
	a.finish(st.sandbox, r)
	if st.sandbox.err != nil {
		return New
	}
	return next
}

// decideAgain is decideFile for another host file, other settings or annotations, which may lead to the
// first write, and compares the file.
func (a *Applier) decideAgain(st *step) State {
	if st.state = a.decideFile(st); st.state.follows() || st.state == Restored && st.cause == causeCommand {
		return a.compare(st)
	}
	return st.state
}

// reconsider compares a file. One that another mode would have replaced is decided again.
func (a *Applier) reconsider(st *step) State {
	if st.reported == cri.Observed {
		return a.decideAgain(st)
	}
	return a.compare(st)
}

// reportRestored reports that the file was restored, instead of a new decision.
func (a *Applier) reportRestored(st *step) State {
	a.finish(st.sandbox, st.report(cri.Restored, ""))
	return Restored
}

// resume ends the effect of a command restore.
func (a *Applier) resume(st *step) State {
	if st.before.follows() {
		return a.compare(st)
	}
	return a.decideAgain(st)
}

var (
	// errNoOriginal is the error of a file without the kubelet's text.
	errNoOriginal = errors.New("the file does not have the kubelet's text: restart the pod")

	// errPending is the error of a pod whose first lookup has not ended.
	errPending = errors.New("the pod is being looked up")
)
