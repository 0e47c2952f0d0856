// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Mode is how the shim weighs its answer against the kubelet's.
type Mode string

// The modes. "" is Generate.
const (
	// Generate writes our answer where we agree with the kubelet about what the
	// pod would get without us. Where we do not, our facts about the node are
	// wrong and the kubelet's answer passes.
	Generate Mode = "Generate"

	// Force always writes our answer. It is for kubelets that do not know the
	// cluster's DNS.
	Force Mode = "Force"

	// Observe compares and reports, and changes nothing.
	Observe Mode = "Observe"
)

// ParseMode returns the mode of that name; "" is Generate.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case "":
		return Generate, nil
	case Generate, Force, Observe:
		return m, nil
	}
	return "", fmt.Errorf("mode %q: want %s, %s or %s", s, Generate, Force, Observe)
}

// SkipAnnotation, with the value "true", keeps the shim's hands off a pod.
const SkipAnnotation = "dnsconfigurer.dev/skip"

// Outcome is what became of a request for a sandbox.
type Outcome string

// The outcomes. All but Edited send the bytes that came.
const (
	Edited           Outcome = "edited"
	Unchanged        Outcome = "unchanged"           // our answer is what the request says
	Observed         Outcome = "observed"            // would have been edited
	Skipped          Outcome = "skipped"             // by annotation
	UnknownPod       Outcome = "unknown_pod"         // nobody knows the pod
	LookupTimeout    Outcome = "lookup_timeout"      // nobody knew it in time
	LookupFailed     Outcome = "lookup_failed"       // who should know it cannot be asked
	FactsMismatch    Outcome = "node_facts_mismatch" // the kubelet computed something else
	Refused          Outcome = "refused"             // the engine says that the pod cannot start
	EmptyDecision    Outcome = "empty_decision"      // runtimes disagree about an empty configuration
	MalformedRequest Outcome = "malformed_request"
	Panicked         Outcome = "panic"
)

var outcomes = []Outcome{
	Edited, Unchanged, Observed, Skipped, UnknownPod, LookupTimeout, LookupFailed,
	FactsMismatch, Refused, EmptyDecision, MalformedRequest, Panicked,
}

// ErrUnknownPod is the error of a Lookup that has asked everybody.
var ErrUnknownPod = errors.New("nobody knows this pod")

// Hook decides about sandboxes. Engine, HostFiles, Lookup and Report are required. The fields
// are set before the Hook is used; many goroutines may use it then. Other settings
// take another Hook ([Shim.SetHook]).
type Hook struct {
	Engine *policy.Engine
	Mode   Mode

	// HostFiles returns the host's resolv.conf as it is now.
	HostFiles func() HostFiles

	// Lookup returns the pod of a sandbox, by its UID, before the deadline of ctx.
	// The error wraps ErrUnknownPod when there is no such pod.
	Lookup func(context.Context, Sandbox) (policy.Pod, error)

	// Report hears of every request before it is sent on, and must not block.
	Report func(Report)

	// Metrics counts outcomes; nil counts nothing.
	Metrics *Metrics
}

// HostFiles is the host's resolv.conf at one instant. Both files are the same unless
// the shim reads another one than the kubelet does.
type HostFiles struct {
	Pods    resolvconf.File // what pods get
	Kubelet resolvconf.File // what the kubelet computes its answer from
}

// Report is what became of one request.
type Report struct {
	Sandbox  Sandbox // the zero value for a request that cannot be read
	Outcome  Outcome
	Detail   string            // why, for a person
	DNS      resolvconf.Config // our answer, for Edited, Unchanged and Observed
	Findings []policy.Finding  // of our answer
}

// edit returns the request to send in the place of request. What cannot be
// answered goes on as it came.
func (h *Hook) edit(ctx context.Context, request []byte) (answer []byte) {
	var r Report
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			answer, r.Outcome, r.Detail = request, Panicked, fmt.Sprint(p)
		}
		h.Metrics.sandbox(r.Outcome, time.Since(began))
		h.Report(r)
	}()
	r.Outcome, r.Detail = h.decide(ctx, request, &r)
	if r.Outcome != Edited {
		return request
	}
	edited, err := withDNS(request, r.DNS)
	if err != nil {
		r.Outcome, r.Detail = MalformedRequest, err.Error()
		return request
	}
	return edited
}

// decide fills r with our answer and says what is to become of it.
func (h *Hook) decide(ctx context.Context, request []byte, r *Report) (Outcome, string) {
	s, err := parseSandbox(request)
	if err != nil {
		return MalformedRequest, err.Error()
	}
	r.Sandbox = s
	if s.Annotations[SkipAnnotation] == "true" {
		return Skipped, ""
	}
	pod, err := h.Lookup(ctx, s)
	if err != nil {
		return lookupOutcome(err), err.Error()
	}
	host := h.HostFiles()
	d := h.Engine.Decide(pod, host.Pods)
	if h.Mode != Force && s.HasDNS && !h.agrees(s.DNS, pod, host, &d) {
		return FactsMismatch, "the kubelet computed other DNS than the facts about the node give: " + s.DNS.String()
	}
	r.DNS, r.Findings = d.Config(), d.Findings
	switch {
	case d.Error != "":
		return Refused, d.Error
	case len(d.Nameservers)+len(d.Searches)+len(d.Options) == 0:
		return EmptyDecision, ""
	case s.HasDNS && identical(r.DNS, s.DNS):
		return Unchanged, ""
	case h.Mode == Observe:
		return Observed, ""
	}
	return Edited, ""
}

// agrees reports whether dns, which the kubelet computed for pod, is what the facts about
// the node give. d is the decision for pod and the file that pods get.
func (h *Hook) agrees(dns resolvconf.Config, pod policy.Pod, host HostFiles, d *policy.Decision) bool {
	if pod.Override == "" && sameFile(host.Pods, host.Kubelet) {
		return d.Matches(dns)
	}
	pod.Override = "" // no kubelet reads the annotation
	expected := h.Engine.Decide(pod, host.Kubelet)
	return expected.Matches(dns)
}

// sameFile reports whether a decision is the same with a as with b.
func sameFile(a, b resolvconf.File) bool {
	return a.Err == nil && b.Err == nil && slices.Equal(a.Nameservers, b.Nameservers) &&
		slices.Equal(a.Searches, b.Searches) && slices.Equal(a.Options, b.Options)
}

func lookupOutcome(err error) Outcome {
	switch {
	case errors.Is(err, ErrUnknownPod):
		return UnknownPod
	case errors.Is(err, context.DeadlineExceeded):
		return LookupTimeout
	}
	return LookupFailed
}

// identical tells whether a and b are the same text, options in the same order.
func identical(a, b resolvconf.Config) bool {
	return slices.Equal(a.Nameservers, b.Nameservers) && slices.Equal(a.Searches, b.Searches) && slices.Equal(a.Options, b.Options)
}
