// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxdns

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"maps"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// recordsInterval is the time between two writes of the file of records: a node that starts its pods
// writes it a few times.
const recordsInterval = time.Second

// recordsRetry is the time after which a write that failed is tried again, as on a full disk.
const recordsRetry = 30 * time.Second

// record is what is known about the text of the runtime in the file of a sandbox, and cannot be read
// from it: after a change of the host's resolv.conf the kubelet computes another text, and the old one
// could be that of the pod. A text that this program has written shows it in its comments, and has
// no record.
type record struct {
	uid   string // of the pod
	state recordState
	sum   [sha256.Size]byte // of the text
	seen  bool              // the file had the text before the first container: it is not the pod's

	// Not in the file of records:

	reported cri.Outcome
	observed bool // Settings.Observed was called, or must not be
}

// recordState is what is known about a text. "": nothing.
type recordState string

const (
	// textAtStart: the file had it before its first container was created. It was not compared with
	// what the kubelet computes from the node facts.
	textAtStart recordState = "start"

	// textComputed: the kubelet has computed it from the node facts of that time, and nothing was to
	// be written.
	textComputed recordState = "computed"

	// textDue: the same, and the decision is still to be written, as in mode Observe.
	textDue recordState = "due"

	// textDecided: it was the decision of that time. A shim has edited the request of the sandbox.
	textDecided recordState = "decided"

	// textReplaced: this program has replaced it, and seen it before the first container. The comments of the
	// file have it, too, but the pod could have written these.
	textReplaced recordState = "replaced"

	// textRestored: it was not written by this program when the command restore was called, so no
	// comment shows that it is to stay.
	textRestored recordState = "restored"
)

// permits reports whether the file follows changes as long as it has the text with this digest.
func (r record) permits(sum [sha256.Size]byte) bool {
	switch r.state {
	case textComputed, textDue, textDecided:
		return r.sum == sum
	}
	return false
}

// note records what is known about the text of s. s.mu must be held.
func (a *Applier) note(s *sandbox, state recordState, sum [sha256.Size]byte) {
	r := s.record.Load()
	if r.state == state && r.sum == sum {
		return
	}
	r.state, r.sum, r.seen = state, sum, sum == s.original && sum != [sha256.Size]byte{}
	s.record.Store(r)
	a.recordsChanged()
}

// noteWritten records that the file of s has a text of this program. s.mu must be held.
func (a *Applier) noteWritten(s *sandbox) {
	if r := s.record.Load(); r.seen {
		a.note(s, textReplaced, r.sum)
	} else {
		a.note(s, "", [sha256.Size]byte{})
	}
}

// noteOutcome records the outcome of a decision that was compared with the text. s.mu must be held.
func (a *Applier) noteOutcome(s *sandbox, sum [sha256.Size]byte, o cri.Outcome) {
	switch o {
	case cri.Unchanged:
		a.note(s, textComputed, sum)
	case cri.Observed, cri.Edited:
		a.note(s, textDue, sum)
	}
}

// resume returns the decision for a text that the kubelet has computed from the node facts of an
// earlier time. The file follows changes from now on, as before. Only a decision that is due is
// written at once, when the node facts are confirmed. s.mu must be held.
func (a *Applier) resume(settings *Settings, s *sandbox, host hostFiles, request cri.Sandbox) cri.Report {
	state := s.record.Load().state
	s.edited = s.edited || state == textDecided
	request.DNS, request.HasDNS = resolvconf.Config{}, false // the node facts of now do not give it
	r := settings.Hook.DecidePod(request, s.pod, s.err, host)
	if r.Outcome != cri.Edited && r.Outcome != cri.Observed {
		return r
	}
	d := settings.Hook.Engine.Decide(s.pod, host().Pods)
	switch {
	case normalize(r.DNS).Equal(s.known):
		r.Outcome = cri.Unchanged
	case r.Outcome == cri.Observed:
	case state != textDue:
		r.Outcome = cri.Unchanged
		a.queue.push(s.ID, causeVerify)
	case isUnreachable(&s.pod, &d):
		r.Outcome, r.Detail = cri.Observed, unreachable
	case settings.Hook.Mode != cri.Force && !a.facts.covers(factsOf(&d)):
		r.Outcome, r.Detail = cri.Observed, unconfirmed
	}
	return r
}

// recall adds the record of a sandbox that is announced later. a.mu must be held.
func (a *Applier) recall(id string, r record) {
	if r == (record{uid: r.uid}) || len(a.recalled) >= maxSandboxes {
		return
	}
	if a.recalled == nil {
		a.recalled = map[string]record{}
	}
	a.recalled[id] = r
}

// adoptRecord gives s, which is new, the record of an earlier process or connection. a.mu must be
// held.
func (a *Applier) adoptRecord(s *sandbox) {
	r, ok := a.recalled[s.ID]
	delete(a.recalled, s.ID)
	if !ok || r.uid != s.UID {
		r = record{uid: s.UID}
	}
	if r.seen {
		s.original = r.sum
	}
	s.restored = r.state == textRestored
	s.record.Store(r)
	s.reported, s.observed = r.reported, r.observed
}

// recordsChanged lets KeepRecords write the file.
func (a *Applier) recordsChanged() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// records returns the records of all sandboxes, and those of an earlier process whose sandboxes were
// not announced yet. It does not wait for a sandbox whose file is written.
func (a *Applier) records() map[string]record {
	list := a.list()
	a.mu.Lock()
	records := maps.Clone(a.recalled)
	a.mu.Unlock()
	if records == nil {
		records = map[string]record{}
	}
	for _, s := range list {
		records[s.ID] = s.record.Load()
	}
	return records
}

// LoadRecords reads the file of records, and removes what an agent that was killed has left beside it. It
// is called before Handle. A file that is missing, invalid
// or of another version is as one without records: the files of these sandboxes are compared with
// the node facts of now.
func (a *Applier) LoadRecords() {
	if err := atomicfile.RemoveLeftovers(a.RecordsFile); err != nil {
		a.Log.Warn("temporary files not removed", "file", a.RecordsFile, "error", err)
	}
	records, err := readRecords(a.RecordsFile)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			a.Log.Warn("records of sandboxes ignored: pods that are older than the last change of the host's resolv.conf "+
				"may not follow changes", "file", a.RecordsFile, "error", err)
		}
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, r := range records {
		r.observed = true // the file does not show the node facts of now
		a.recall(id, r)
	}
}

// KeepRecords writes the file of records when they have changed, until ctx ends, and then once more.
func (a *Applier) KeepRecords(ctx context.Context) error {
	f := recordsFile{path: a.RecordsFile, log: a.Log}
	for {
		ended := false
		var retry <-chan time.Time
		if f.failed {
			retry = time.After(recordsRetry)
		}
		select {
		case <-a.changed:
		case <-retry:
		case <-ctx.Done():
			ended = true
		}
		f.write(a.records())
		if ended {
			return nil
		}
		select {
		case <-time.After(recordsInterval):
		case <-ctx.Done():
		}
	}
}
