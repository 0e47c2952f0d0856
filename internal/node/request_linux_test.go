// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// adopt announces the sandbox of a shim, and returns when its file was verified.
func (a *applierTest) adopt(r *podfile.Request) {
	a.apply()
	a.Handle(a.ctx, podfile.Event{Kind: podfile.Running, Sandbox: a.sandbox, Path: a.path(), Request: r})
	a.Wait()
}

// newShimTest returns an applier of a shim with a pod of this policy. The request of its sandbox
// has become the file's text.
func newShimTest(t *testing.T, p, override policy.Policy) (a *refreshTest, r *podfile.Request) {
	a = prepareRefreshTest(t, p, nil)
	lookup := a.settings.Hook.Lookup
	pod, err := lookup(a.ctx, cri.Sandbox{Namespace: "shop", Name: "web", UID: "u"})
	if err != nil {
		t.Fatal(err)
	}
	kubelet := a.settings.Hook.Engine.KubeletConfig(pod, a.host)
	pod.Override = override
	a.settings.Hook.Lookup = fixedLookup(pod)
	d := a.settings.Hook.Engine.Decide(pod, a.host)
	r = &podfile.Request{Outcome: string(cri.Edited), Kubelet: kubelet.String(), Decision: d.Config().String()}
	if r.Kubelet == r.Decision {
		r.Outcome = string(cri.Unchanged)
	}
	a.write(r.Decision)
	return a, r
}

// TestAdopt changes the host's file of a pod whose sandbox a shim has created, in the process
// that has forwarded the request, and in one that has started later.
func TestAdopt(t *testing.T) {
	for name, c := range map[string]struct {
		policy, override policy.Policy
		outcome          cri.Outcome
		want             RefreshResult
	}{
		"Default":                  {policy.Default, "", cri.Unchanged, Refreshed},
		"ClusterFirst":             {policy.ClusterFirst, "", cri.Unchanged, Refreshed},
		"Default by annotation":    {policy.ClusterFirst, policy.Default, cri.Edited, Refreshed},
		"ClusterFirstWithAutopath": {policy.ClusterFirst, policy.ClusterFirstWithAutopath, cri.Edited, UpToDate},
	} {
		t.Run(name, func(t *testing.T) {
			a, r := newShimTest(t, c.policy, c.override)
			a.adopt(r)
			before := string(a.read())
			if p := a.Pods()[0]; p.Outcome != string(c.outcome) || p.Drift != "" || before != r.Decision {
				t.Fatalf("%+v, and the file has\n%s", p, before)
			}
			if len(a.reports) > 0 {
				t.Errorf("a report: %+v", <-a.reports)
			}
			a.host = resolvconf.Parse(otherHost)
			if got := a.refreshNow(causeHost); got != c.want {
				t.Fatalf("got %q, want %q", got, c.want)
			}
			text := a.read()
			if c.want != Refreshed {
				if string(text) != before {
					t.Errorf("the file was written:\n%s", text)
				}
				return
			}
			if original, ok := podfile.Original(text); !ok || string(original) != r.Kubelet {
				t.Errorf("original %q, want %q", original, r.Kubelet)
			}
			later, _ := newShimTest(t, c.policy, c.override)
			later.directory, later.settings.Directories, later.host = a.directory, a.settings.Directories, a.host
			later.adopt(&podfile.Request{})
			if p := later.Pods()[0]; p.Drift != "" || p.Outcome != string(cri.Unchanged) {
				t.Errorf("in a later process: %+v", p)
			}
		})
	}
}

// TestAdopt_UnknownRequest: a process that has not forwarded the request recognizes the decision
// of another one, and records what the kubelet computes as the original text.
func TestAdopt_UnknownRequest(t *testing.T) {
	a, r := newShimTest(t, policy.ClusterFirst, policy.Default)
	a.adopt(&podfile.Request{})
	if p := a.Pods()[0]; p.Outcome != string(cri.Unchanged) || p.Drift != "" {
		t.Fatalf("%+v", p)
	}
	a.write(ownText) // by the pod
	if got := a.refreshNow(causeHost); got != Modified {
		t.Errorf("got %q for a file that the pod has changed", got)
	}
	if got := a.refreshNow(causeCommand); got != Refreshed {
		t.Errorf("got %q for the command", got)
	}
	if original, ok := podfile.Original(a.read()); !ok || string(original) != r.Kubelet {
		t.Errorf("original %q, want %q", original, r.Kubelet)
	}
}

// TestAdopt_Passed: the file of a request that was not decided stays, whatever it has.
func TestAdopt_Passed(t *testing.T) {
	a, r := newShimTest(t, policy.ClusterFirst, "")
	a.write(ownText)
	r.Outcome = string(cri.FactsMismatch)
	a.adopt(r)
	if p := a.Pods()[0]; p.Outcome != string(cri.FactsMismatch) || p.Expected != "" {
		t.Errorf("%+v", p)
	}
	if got := a.refreshNow(causeCommand); got != "" || string(a.read()) != ownText {
		t.Errorf("got %q, and the file has\n%s", got, a.read())
	}
}

// TestApplier_ShimDecision: the agent of a node that had a shim before recognizes its decision.
func TestApplier_ShimDecision(t *testing.T) {
	a, _ := newShimTest(t, policy.ClusterFirst, policy.Default)
	a.running()
	if r := <-a.reports; r.Outcome != cri.Unchanged {
		t.Errorf("%+v", r)
	}
	a.Wait()
	if a.facts.covers(nodeFacts) {
		t.Error("the text of a shim has confirmed the node facts")
	}
	a.facts.confirm(nodeFacts)
	a.host = resolvconf.Parse(otherHost)
	if got := a.refreshNow(causeHost); got != Refreshed {
		t.Errorf("got %q", got)
	}
}

// TestAdopt_LostConnection: the agent keeps what a shim has done with the request of a file that has no
// decision yet, although the shim sends it only once.
func TestAdopt_LostConnection(t *testing.T) {
	a, r := newShimTest(t, policy.ClusterFirst, policy.Default)
	a.settings.Hook.Problem = errors.New("invalid")
	a.adopt(r)
	a.Handle(a.ctx, podfile.Event{Kind: podfile.Reset})
	a.adopt(&podfile.Request{})
	a.Handle(a.ctx, podfile.Event{Kind: podfile.Synchronized})
	if s := a.list()[0]; s.request != r {
		t.Errorf("the request is %+v", s.request)
	}
}
