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

// Mode is how a [Hook] uses the engine's decision.
type Mode string

// The modes. "" is Generate.
const (
	// Generate writes the decision if the engine, with the kubelet's input, computes
	// the kubelet's DNS. If it does not, the node's facts are wrong and the request is
	// forwarded unchanged.
	Generate Mode = "Generate"

	// Force always writes the decision. It is for kubelets that are not configured
	// with the cluster's DNS.
	Force Mode = "Force"

	// Observe compares and reports, and changes nothing.
	Observe Mode = "Observe"
)

// ParseMode returns the mode named s; "" is Generate.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case "":
		return Generate, nil
	case Generate, Force, Observe:
		return m, nil
	}
	return "", fmt.Errorf("mode %q: want %s, %s or %s", s, Generate, Force, Observe)
}

// SkipAnnotation, with the value "true", opts a pod out.
const SkipAnnotation = "dnsconfigurer.dev/skip"

// Outcome is the result of one RunPodSandbox request.
type Outcome string

// The outcomes. All except Edited forward the request unchanged.
const (
	Edited           Outcome = "edited"
	Unchanged        Outcome = "unchanged"           // the request already has the decision
	Observed         Outcome = "observed"            // Edited, but for the mode
	Skipped          Outcome = "skipped"             // by annotation
	UnknownPod       Outcome = "unknown_pod"         // the pod does not exist
	LookupTimeout    Outcome = "lookup_timeout"      // the pod was not found in time
	LookupFailed     Outcome = "lookup_failed"       // the pod could not be looked up
	FactsMismatch    Outcome = "node_facts_mismatch" // the kubelet computed different DNS
	Refused          Outcome = "refused"             // the engine decides that the pod cannot start
	EmptyDecision    Outcome = "empty_decision"      // runtimes differ in what they do with an empty configuration
	MalformedRequest Outcome = "malformed_request"
	Panicked         Outcome = "panic"
)

var outcomes = []Outcome{
	Edited, Unchanged, Observed, Skipped, UnknownPod, LookupTimeout, LookupFailed,
	FactsMismatch, Refused, EmptyDecision, MalformedRequest, Panicked,
}

// ErrUnknownPod is the error of a lookup that has tried every source.
var ErrUnknownPod = errors.New("pod not found")

// Hook decides the DNS of pod sandboxes. Engine, HostFiles, Lookup and Report are
// required. A Hook must not be changed once it is in use; it may be used by several
// goroutines. To change the configuration, make another Hook and call [Shim.SetHook].
type Hook struct {
	Engine *policy.Engine
	Mode   Mode

	// HostFiles returns the host's resolv.conf as it is now.
	HostFiles func() HostFiles

	// Lookup returns the pod of a sandbox, by its UID, before the deadline of ctx.
	// If there is no such pod, the error wraps ErrUnknownPod.
	Lookup func(context.Context, Sandbox) (policy.Pod, error)

	// Report is called for every request before the request is forwarded. It must not
	// block.
	Report func(Report)

	// Metrics counts outcomes; nil counts nothing.
	Metrics *Metrics
}

// HostFiles is the host's resolv.conf at one instant. Both files are the same unless the
// shim is configured to read another one than the kubelet.
type HostFiles struct {
	Pods    resolvconf.File // pods get this one
	Kubelet resolvconf.File // the kubelet computes DNS from this one
}

// Report describes the outcome of one request.
type Report struct {
	Sandbox  Sandbox // zero if the request is malformed
	Outcome  Outcome
	Detail   string            // the reason, for people
	DNS      resolvconf.Config // the decision, for Edited, Unchanged and Observed
	Findings []policy.Finding  // of the decision
}

// edit returns the request to forward instead of request.
func (h *Hook) edit(ctx context.Context, request []byte) (edited []byte) {
	var r Report
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			edited, r.Outcome, r.Detail = request, Panicked, fmt.Sprint(p)
		}
		h.Metrics.observeSandbox(r.Outcome, time.Since(began))
		h.Report(r)
	}()
	r.Outcome, r.Detail = h.decide(ctx, request, &r)
	if r.Outcome != Edited {
		return request
	}
	edited, err := setDNS(request, r.DNS)
	if err != nil {
		r.Outcome, r.Detail = MalformedRequest, err.Error()
		return request
	}
	return edited
}

// decide returns the outcome of request and its detail. It sets the other fields of r.
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
	if h.Mode != Force && s.HasDNS && !h.matches(s.DNS, pod, host, &d) {
		return FactsMismatch, "the kubelet's DNS does not match the node's facts: " + s.DNS.String()
	}
	r.DNS, r.Findings = d.Config(), d.Findings
	switch {
	case d.Error != "":
		return Refused, d.Error
	case len(d.Nameservers)+len(d.Searches)+len(d.Options) == 0:
		return EmptyDecision, ""
	case s.HasDNS && sameText(r.DNS, s.DNS):
		return Unchanged, ""
	case h.Mode == Observe:
		return Observed, ""
	}
	return Edited, ""
}

// matches reports whether the engine computes dns, the kubelet's DNS for pod, from the
// kubelet's input. d is the decision for pod and host.Pods; it serves for both unless the
// kubelet's input is different.
func (h *Hook) matches(dns resolvconf.Config, pod policy.Pod, host HostFiles, d *policy.Decision) bool {
	if pod.Override == "" && sameLists(host.Pods, host.Kubelet) {
		return d.Matches(dns)
	}
	pod.Override = "" // the kubelet does not read the annotation
	expected := h.Engine.Decide(pod, host.Kubelet)
	return expected.Matches(dns)
}

// sameLists reports whether a and b are usable and have the same entries.
func sameLists(a, b resolvconf.File) bool {
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

// sameText reports whether a and b are written the same, options in the same order.
func sameText(a, b resolvconf.Config) bool {
	return slices.Equal(a.Nameservers, b.Nameservers) && slices.Equal(a.Searches, b.Searches) && slices.Equal(a.Options, b.Options)
}
