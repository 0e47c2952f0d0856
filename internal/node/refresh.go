// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Scope is the pods whose files follow changes while they run.
type Scope string

// The scopes. "" is Off.
const (
	ScopeOff     Scope = "Off"
	ScopeDefault Scope = "DefaultPolicyOnly" // pods that use the host's nameservers
	ScopeAll     Scope = "All"
	ScopeDryRun  Scope = "DryRun" // files that ScopeAll would rewrite are counted and logged only
)

// RefreshAnnotation overrides the scope for a pod: "always" or "never". Other values are
// ignored.
const RefreshAnnotation = "dnsconfigurer.dev/refresh"

// list returns the sandboxes in the order of their pods' names.
func (a *Applier) list() []*sandbox {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]*sandbox, 0, len(a.sandboxes))
	for _, s := range a.sandboxes {
		list = append(list, s)
	}
	slices.SortFunc(list, func(x, y *sandbox) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.ID, y.ID))
	})
	return list
}

// Why a decision is not written.
const (
	unconfirmed = "no new pod has confirmed the node facts yet"
	unreachable = "the host has nameservers on its loopback only, which the pod cannot reach"
)

// compare compares the file with a new decision, and rewrites it if that is permitted.
func (a *Applier) compare(st *step) State {
	s, d := st.sandbox, st.decision
	if s.annotation(cri.SkipAnnotation) == "true" {
		st.detail = "the pod has the annotation " + cri.SkipAnnotation
		return s.state
	}
	r := Refresh{Sandbox: s.describe(), DNS: d().Config()}
	if !st.hasDecision() {
		st.result, st.detail = Refused, d().Error
		return s.state // the file stays, and follows when there is a decision again
	}
	s.want = normalize(r.DNS)
	f := openContent(st.settings, s)
	defer f.close()
	if errors.Is(f.err, fs.ErrNotExist) && a.isGone(s.ID, s.path) { // meanwhile
		a.remove(s.ID)
		st.detail = "the sandbox was removed"
		return s.state
	}
	previous, next := s.lastDrift(), s.state
	r.Drift = f.drift(s)
	s.drift.Store(r.Drift)
	switch {
	case r.Drift == "" && f.origin != podfile.Restored:
		s.known, st.result = s.want, UpToDate
		return next
	case f.err != nil && !errors.Is(f.err, fs.ErrNotExist):
		r.Result, r.Detail = Failed, f.err.Error()
	default:
		r.Result, r.Detail = a.permit(st, f)
	}
	if r.Result == Refreshed {
		if err := a.rewrite(st, f); err != nil {
			r.Result, r.Detail = Failed, err.Error()
		} else {
			next = Ours
		}
	}
	r.Detail = excerpt.Text(r.Detail, excerpt.MaxMessage)
	if r.Result == Refreshed || r.Drift != previous || st.cause != causeVerify && r.Result == DryRun {
		st.settings.Report(r)
	}
	st.result, st.detail = r.Result, r.Detail
	return next
}

// permit returns Refreshed if the file f may be rewritten, or why not, and the reason for the pod's author. A
// command for one pod overrides everything except the mode.
func (a *Applier) permit(st *step, f *content) (RefreshResult, string) {
	settings, d, c := st.settings, st.decision(), st.cause
	always := st.annotation(RefreshAnnotation) == "always"
	never := st.annotation(RefreshAnnotation) == "never"
	dry := settings.Refresh == ScopeDryRun && c != causeAll
	inScope := dry || settings.Refresh == ScopeAll || settings.Refresh == ScopeDefault && usesHost(d)
	switch {
	case settings.Hook.Mode == cri.Observe:
		return NotPermitted, ""
	case c == causeCommand:
		return Refreshed, ""
	case f.modified(st.sandbox) && !always:
		return Modified, ""
	case never, !always && !inScope && c != causeAll:
		return NotPermitted, ""
	case !dry && settings.Hook.Mode != cri.Force && !a.facts.covers(factsOf(d)):
		return Unconfirmed, unconfirmed
	case isUnreachable(&st.pod, d):
		return Refused, unreachable
	case dry:
		return DryRun, ""
	}
	return Refreshed, ""
}

// usesHost reports whether the pod has nameservers of the host.
func usesHost(d *policy.Decision) bool {
	return slices.ContainsFunc(d.Nameservers, func(e policy.Entry) bool { return e.Source.Origin == policy.FromHost })
}

// isUnreachable reports whether a pod with a network of its own has no nameservers but those of the
// host on the loopback of the node. A new pod gets them, as from the kubelet; a running one has
// better ones. The kernel connects the unspecified address to the loopback.
func isUnreachable(pod *policy.Pod, d *policy.Decision) bool {
	if pod.HostNetwork || len(d.Nameservers) == 0 {
		return false
	}
	return !slices.ContainsFunc(d.Nameservers, func(e policy.Entry) bool {
		addr, err := netip.ParseAddr(e.Text)
		return e.Source.Origin != policy.FromHost || err != nil || !addr.IsLoopback() && !addr.IsUnspecified()
	})
}

// rewrite writes the decision.
func (a *Applier) rewrite(st *step, f *content) (err error) {
	s := st.sandbox
	if f.file == nil {
		if f.file, err = podfile.Create(st.settings.Directories, s.ID, s.path); err != nil {
			return err
		}
	}
	original := f.original
	if original == nil && f.origin != podfile.Written { // the pod has removed it
		original = []byte(st.kubelet().String())
	}
	if err := f.file.Replace(f.text, st.decision().Config().String(), original); err != nil {
		return err
	}
	s.recognized = recognition{}
	s.drift.Store(Drift(""))
	s.known, s.refreshed = s.want, time.Now()
	a.touchLater(s)
	return nil
}

// touchDelay is the time from a late write to Touch, in which the kernel has copied the text.
const touchDelay = 5 * time.Millisecond

// touchLater schedules touch.
func (a *Applier) touchLater(s *sandbox) { a.schedule(s, causeTouch, touchDelay) }

// touch sets the time of a file that was rewritten, see [podfile.File.Touch].
func (a *Applier) touch(s *sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := podfile.Open(a.settings.Load().Directories, s.ID, s.path)
	if err == nil {
		err = f.Touch()
		f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.Log.Warn("cannot set the time of a resolv.conf: programs may keep the previous text",
			"namespace", excerpt.Text(s.Namespace, excerpt.MaxValue), "pod", excerpt.Text(s.Name, excerpt.MaxValue), "error", err)
	}
}

// content is the file of a sandbox as it is.
type content struct {
	file     *podfile.File // nil: it cannot be opened
	err      error         // why it cannot be opened or read
	text     []byte
	dns      resolvconf.Config
	origin   podfile.Origin
	original []byte // the text of the runtime; nil: not recorded
}

// openContent opens and reads the file of s.
func openContent(settings *Settings, s *sandbox) *content {
	c := new(content)
	if c.file, c.err = podfile.Open(settings.Directories, s.ID, s.path); c.err != nil {
		c.file = nil
		return c
	}
	if c.text, c.err = c.file.Read(); c.err != nil {
		return c
	}
	c.dns, c.origin = resolvconf.Parse(string(c.text)).Config(), podfile.OriginOf(c.text)
	switch {
	case c.origin != podfile.Runtime:
		c.original, _ = podfile.Original(c.text)
	case c.dns.Equal(s.known):
		c.original = s.runtimeText(c.text)
	}
	return c
}

func (c *content) close() {
	if c.file != nil {
		c.file.Close()
	}
}

// isGone reports whether the runtime has removed the sandbox with the file at path: its directory of
// sandboxes exists, that of the sandbox does not. After a restart containerd does not announce the
// removal of older sandboxes (https://github.com/containerd/containerd/issues/8426). If the directory of
// sandboxes itself was removed, those of the new one look the same, which is logged once.
func (a *Applier) isGone(id, path string) bool {
	i := strings.Index(path, "/"+id+"/")
	if i <= 0 || id == "" {
		return false
	}
	directory, err := os.Lstat(path[:i])
	if err != nil {
		return false // not the directory of the runtime, or not mounted
	}
	if podfile.IsDeleted(directory) && !a.deleted.Swap(true) {
		a.Log.Error("directory of sandboxes is mounted, and was removed on the node: the agent does not see the files of pods, "+
			"which keep the kubelet's DNS: restart the pod of the agent", "directory", path[:i])
	}
	_, err = os.Lstat(filepath.Dir(path))
	return errors.Is(err, fs.ErrNotExist)
}

// drift returns how the file differs from the decision for s.
func (c *content) drift(s *sandbox) Drift {
	switch {
	case errors.Is(c.err, fs.ErrNotExist):
		return Missing
	case c.err != nil:
		return Unreadable
	case c.dns.Equal(s.want):
		return ""
	case len(c.text) == 0:
		return Empty
	case c.modified(s):
		return Different
	}
	return Outdated
}

// modified reports whether the pod has changed the file.
func (c *content) modified(s *sandbox) bool {
	switch c.origin {
	case podfile.Changed:
		return true
	case podfile.Runtime:
		return len(c.text) > 0 && !c.dns.Equal(s.known)
	}
	return false
}

// restore writes the kubelet's text back into the file of s, and leaves the file alone from
// then on.
func (a *Applier) restore(s *sandbox) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path == "" {
		return errors.New("the pod has no container yet")
	}
	st := newStep(a.settings.Load(), s)
	a.process(Restore, st)
	return st.failure
}

// writeBack writes the kubelet's text into the file.
func (a *Applier) writeBack(st *step) State {
	s := st.sandbox
	f := openContent(st.settings, s)
	defer f.close()
	switch {
	case f.err != nil:
		st.failure = f.err
		return s.state
	case f.origin == podfile.Restored:
		s.before = Ours
		return Restored
	case f.origin == podfile.Runtime && !s.state.follows(): // never written, and not to be
		s.before = s.state
		return Restored
	case f.original == nil:
		st.failure = errNoOriginal
		return s.state
	}
	if err := f.file.Restore(f.text, f.original); err != nil {
		st.failure = fmt.Errorf("restoring: %w", err)
		return s.state
	}
	s.recognized = recognition{}
	s.drift.Store(Drift(""))
	s.before, s.known = Ours, resolvconf.Parse(string(f.original)).Config()
	a.Metrics.countRefresh(WrittenBack)
	st.settings.Report(Refresh{Sandbox: s.describe(), Result: WrittenBack})
	a.touchLater(s)
	return Restored
}
