// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
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

// SkipAnnotation, with the value "true", opts a pod out.
const SkipAnnotation = "dnsconfigurer.dev/skip"

// Outcome is the result of one RunPodSandbox request.
type Outcome string

// The outcomes. All except Edited forward the request unchanged, unless Hook.FailUnknown applies.
const (
	Edited           Outcome = "edited"
	Unchanged        Outcome = "unchanged"           // the request already has the decision
	Observed         Outcome = "observed"            // would be Edited in another mode than Observe
	Skipped          Outcome = "skipped"             // by annotation
	UnknownPod       Outcome = "unknown_pod"         // the pod does not exist
	LookupTimeout    Outcome = "lookup_timeout"      // the pod was not found in time
	LookupFailed     Outcome = "lookup_failed"       // the pod could not be looked up
	FactsMismatch    Outcome = "node_facts_mismatch" // the kubelet computed different DNS
	Refused          Outcome = "refused"             // the engine decides that the pod cannot start
	EmptyDecision    Outcome = "empty_decision"      // runtimes differ in what they do with an empty configuration
	MalformedRequest Outcome = "malformed_request"
	Panicked         Outcome = "panic"
	BadConfig        Outcome = "bad_config" // the shim's own configuration is invalid
)

// The outcomes of the agent (package internal/node) in addition to those above. All except Late
// leave the file of the sandbox unchanged.
const (
	Late        Outcome = "late"         // edited, after a container was created
	ForeignFile Outcome = "foreign_file" // not the runtime's file of the sandbox, or larger than one page
	PodChanged  Outcome = "pod_changed"  // the pod has changed the file
	Unverified  Outcome = "unverified"   // another text than the kubelet's, which was not seen before the first container
	WriteFailed Outcome = "write_failed"
	Restored    Outcome = "restored" // the command restore has written the kubelet's text
)

var outcomes = []Outcome{
	Edited, Unchanged, Observed, Skipped, UnknownPod, LookupTimeout, LookupFailed,
	FactsMismatch, Refused, EmptyDecision, MalformedRequest, Panicked, BadConfig,
}

// Outcomes returns the outcomes of a Hook.
func Outcomes() []Outcome { return slices.Clone(outcomes) }

// ErrUnknownPod is the error of a lookup that has tried every source.
var ErrUnknownPod = errors.New("pod not found")

// ErrBadConfig is the error of a lookup that the configuration makes impossible.
var ErrBadConfig = errors.New("invalid configuration")

// Hook decides the DNS of pod sandboxes. Engine, HostFiles, Lookup and Report are
// required. A Hook must not be changed once it is in use; it may be used by several
// goroutines. To change the configuration, make another Hook and call [Shim.SetHook].
type Hook struct {
	Engine *policy.Engine
	Mode   Mode

	// Problem is why there is no valid configuration. If it is not nil, every request is
	// forwarded unchanged with the outcome BadConfig; Engine, HostFiles and Lookup are not used.
	Problem error

	// FailUnknown makes the request fail with the code Unavailable if its pod is from the API
	// server and cannot be looked up. The kubelet repeats the request. false: such a request is
	// forwarded unchanged.
	FailUnknown bool

	// HostFiles returns the host's resolv.conf as it is now.
	HostFiles func() HostFiles

	// Lookup returns the pod of a sandbox, by its UID, before the deadline of ctx.
	// If there is no such pod, the error wraps ErrUnknownPod.
	Lookup func(context.Context, Sandbox) (policy.Pod, error)

	// Report is called for every request before the request is forwarded. It must not
	// block. The author of a pod controls the size of the fields of the Report, except Detail.
	Report func(Report)

	large     sync.Mutex // held while a large request is decided
	largePods sync.Mutex // held while a large dnsConfig is decided; locked after large
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
	Mode     Mode              // of the hook
	Failed   bool              // the request was answered with an error, see Hook.FailUnknown
	Detail   string            // the reason, for people; at most 1,024 bytes
	DNS      resolvconf.Config // the decision, for Edited, Unchanged and Observed
	Findings []policy.Finding  // of the decision
}

// largeRequest is the size in bytes from which requests are decided one after the other. A
// request has a few kilobytes. One with 3 MiB of options takes 300 MiB of allocations and half
// a second: many of them at once, of one author, must not take the memory of the node.
const largeRequest = 256 << 10

// largeConfig is the number of entries of a dnsConfig from which pods are decided one after the
// other. The request of such a pod may be small: of several options with the same name the kubelet
// sends only the last. 200,000 of them take 30 MB while they are decided.
const largeConfig = 10_000

// edit returns the request to forward to the runtime, and what it has reported and counted in m. If the request
// must fail, it returns the error for the kubelet.
func (h *Hook) edit(ctx context.Context, request []byte, m *Metrics) (edited []byte, r Report, failure error) {
	if len(request) >= largeRequest {
		h.large.Lock()
		defer h.large.Unlock()
	}
	r.Mode = h.Mode
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			edited, failure, r.Outcome, r.Detail = request, nil, Panicked, fmt.Sprint(p)
		}
		r.Detail = excerpt.Text(r.Detail, excerpt.MaxMessage)
		m.sandboxes.WithLabelValues(string(r.Outcome)).Inc()
		m.decision.Observe(time.Since(began).Seconds())
		h.report(r, m)
	}()
	if s, err := parseSandbox(request); err != nil {
		r.Outcome, r.Detail = MalformedRequest, err.Error()
	} else {
		r.Sandbox = s // for the report of a panic
		r = h.Decide(ctx, s)
	}
	if r.Outcome != Edited {
		if r.Failed = h.mustFail(&r); r.Failed {
			failure = status.Errorf(codes.Unavailable, "dnsconfigurer: the pod's DNS cannot be decided: %s: %s",
				r.Outcome, excerpt.Text(r.Detail, excerpt.MaxMessage))
		}
		return request, r, failure
	}
	edited, err := setDNS(request, r.DNS)
	switch {
	case errors.Is(err, errNotUTF8):
		r.Outcome, r.Detail = Refused, err.Error()
		return request, r, nil
	case err != nil:
		r.Outcome, r.Detail = MalformedRequest, err.Error()
		return request, r, nil
	}
	return edited, r, nil
}

// configSource is the annotation in which the kubelet says where a pod comes from.
const configSource = "kubernetes.io/config.source"

// mustFail reports whether the request is answered with an error. Requests of static pods are not:
// the API server may be one of them.
func (h *Hook) mustFail(r *Report) bool {
	switch r.Outcome {
	case UnknownPod, LookupTimeout, LookupFailed:
		return h.FailUnknown && r.Sandbox.Annotations[configSource] == "api"
	}
	return false
}

// report calls h.Report. A panic in it is counted, and does not end the process.
func (h *Hook) report(r Report, m *Metrics) {
	defer func() {
		if recover() != nil {
			m.panics.Inc()
		}
	}()
	h.Report(r)
}

// Decide looks up the pod of a sandbox, and returns the decision. It neither counts nor reports it.
func (h *Hook) Decide(ctx context.Context, s Sandbox) Report {
	if outcome, detail := h.exempt(s); outcome != "" {
		return Report{Sandbox: s, Mode: h.Mode, Outcome: outcome, Detail: detail}
	}
	pod, err := h.Lookup(ctx, s)
	defer h.Turn(pod)()
	return h.DecidePod(s, pod, err, h.HostFiles)
}

// Turn returns when it is pod's turn to be decided: those with thousands of entries in their
// dnsConfig are decided one after the other. done ends the turn.
func (h *Hook) Turn(pod policy.Pod) (done func()) {
	if !TakesTurns(pod) {
		return func() {}
	}
	h.largePods.Lock()
	return h.largePods.Unlock
}

// TakesTurns reports whether pod is decided in its [Hook.Turn]. The decision may take half a second.
func TakesTurns(pod policy.Pod) bool {
	c := pod.Config
	return c != nil && len(c.Nameservers)+len(c.Searches)+len(c.Options) >= largeConfig
}

// DecidePod is Decide with pod and err, the result of an earlier lookup, and with the host's files
// of the caller. It is called in the pod's [Hook.Turn].
func (h *Hook) DecidePod(s Sandbox, pod policy.Pod, err error, host func() HostFiles) Report {
	r := Report{Sandbox: s, Mode: h.Mode}
	if r.Outcome, r.Detail = h.exempt(s); r.Outcome != "" {
		return r
	}
	if err != nil {
		r.Outcome, r.Detail = lookupOutcome(err), err.Error()
		return r
	}
	r.Outcome, r.Detail = h.decide(s, pod, host(), &r)
	return r
}

// exempt returns the outcome for s if no decision is made, and its detail.
func (h *Hook) exempt(s Sandbox) (Outcome, string) {
	switch {
	case s.Annotations[SkipAnnotation] == "true":
		return Skipped, ""
	case h.Problem != nil:
		return BadConfig, h.Problem.Error()
	}
	return "", ""
}

// decide returns the outcome for s and its detail. It sets the decision of r.
func (h *Hook) decide(s Sandbox, pod policy.Pod, host HostFiles, r *Report) (Outcome, string) {
	if len(s.IPs) > 0 { // newer than the status of the pod
		pod.IPs = s.IPs
	}
	d := h.Engine.Decide(pod, host.Pods)
	if h.Mode != Force || s.Unverified {
		if problem := h.crossCheck(s, pod, host.Kubelet, &d); problem != "" {
			return FactsMismatch, "the kubelet's DNS does not match the node's facts: " + problem
		}
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

// crossCheck compares the kubelet's request with what the engine computes from the kubelet's
// input. It describes the first difference, and returns "" if there is none. The host name
// shows a wrong cluster domain for pods without search domains of the cluster.
func (h *Hook) crossCheck(s Sandbox, pod policy.Pod, host resolvconf.File, d *policy.Decision) string {
	switch {
	case s.HostNetwork && !pod.HostNetwork:
		return "the sandbox is on the host's network, the pod is not"
	case !s.FromFile && s.Hostname != d.Hostname && d.Error == "":
		return fmt.Sprintf("hostname %q, expected %q", excerpt.Text(s.Hostname, excerpt.MaxValue), d.Hostname)
	case !s.HasDNS:
		return ""
	}
	expected := h.Engine.KubeletConfig(pod, host)
	if s.FromFile {
		expected = resolvconf.Parse(expected.String()).Config()
	}
	if expected.Equal(s.DNS) {
		return ""
	}
	name, got, want := "options", s.DNS.Options, expected.Options
	switch {
	case !slices.Equal(s.DNS.Nameservers, expected.Nameservers):
		name, got, want = "nameservers", s.DNS.Nameservers, expected.Nameservers
	case !slices.Equal(s.DNS.Searches, expected.Searches):
		name, got, want = "searches", s.DNS.Searches, expected.Searches
	}
	return fmt.Sprintf("%s %q, expected %q", name, excerpt.List(got), excerpt.List(want))
}

func lookupOutcome(err error) Outcome {
	switch {
	case errors.Is(err, ErrBadConfig):
		return BadConfig
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
