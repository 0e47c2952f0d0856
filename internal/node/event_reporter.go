// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Reasons of the events on pods.
const (
	ReasonConfigured = "DNSConfigured"
	ReasonMismatch   = "NodeFactsMismatch"
	ReasonUnsafe     = "UnsafeDNSValue"
	ReasonUnknown    = "PodLookupFailed"
)

// A Reporter reports outcomes of sandboxes.
type Reporter struct {
	log    *slog.Logger
	events *recorder
}

// NewReporter returns the reporter of a node, which counts in drops the events that it does
// not send. Without a client there are no events. The log must not block.
func NewReporter(client rest.Interface, node string, drops *Drops, log *slog.Logger) *Reporter {
	return &Reporter{log, &recorder{client: client, node: node, log: log, drops: drops, wake: make(chan struct{}, 1),
		sent: map[eventKey]sentEvent{}}}
}

// Run sends events until ctx ends, and a second longer those that wait.
func (r *Reporter) Run(ctx context.Context) error { return r.events.run(ctx) }

// Report logs the outcome of a sandbox and records its events. It never blocks. A log line
// has at most 4 KiB, however large the pod is.
func (r *Reporter) Report(p cri.Report) {
	s := p.Sandbox
	log := r.log.With("pod", name(s.Namespace)+"/"+name(s.Name), "podUID", name(s.UID), "outcome", p.Outcome)
	pod, dns := podReference(s), excerptConfig(p.DNS)
	switch p.Outcome {
	case cri.UnknownPod, cri.LookupTimeout, cri.LookupFailed:
		r.reportUnknown(p, pod, log)
	case cri.Edited, cri.Late:
		log.Info("sandbox edited", attrs(dns)...)
		if !s.HasDNS || !s.DNS.Equal(p.DNS) { // not only the order of options
			r.events.record(pod, corev1.EventTypeNormal, ReasonConfigured,
				fmt.Sprintf("resolv.conf is set by dnsconfigurer: %q", dns.String()))
		}
		if message := unsafeValues(p.Findings); message != "" {
			r.events.record(pod, corev1.EventTypeWarning, ReasonUnsafe, message)
		}
	case cri.Observed:
		log.Info("sandbox would be edited", attrs(dns)...)
	case cri.FactsMismatch:
		log.Warn("sandbox passed, node facts differ from the kubelet's", "detail", p.Detail)
		r.events.record(pod, corev1.EventTypeWarning, ReasonMismatch, p.Detail)
	case cri.Panicked, cri.MalformedRequest:
		log.Error("sandbox passed", "detail", p.Detail)
	case cri.Refused, cri.WriteFailed:
		log.Warn("sandbox passed", "detail", p.Detail)
	default:
		log.Debug("sandbox passed", "detail", p.Detail)
	}
}

// ReportHostFile records an event on the node: its resolv.conf is unusable, or usable again if
// problem is "". It never blocks.
func (r *Reporter) ReportHostFile(problem string) {
	node := nodeReference(r.events.node)
	switch {
	case node.Name == "":
	case problem == "":
		r.events.record(node, corev1.EventTypeNormal, ReasonHostFileUsable, "the host's resolv.conf is usable again")
	default:
		r.events.record(node, corev1.EventTypeWarning, ReasonHostFileUnusable, "the host's resolv.conf is unusable: "+problem)
	}
}

// name returns a name or a UID for a log line.
func name(s string) string { return excerpt.Text(s, excerpt.MaxValue) }

// unsafeValues describes the unsafe values among findings, the first three of them in full.
// It returns "" if there are none.
func unsafeValues(findings []policy.Finding) string {
	const full = 3
	var messages []string
	count := 0
	for _, f := range findings {
		if f.Code == policy.CodeUnsafeValue {
			count += 1 + f.More
			if len(messages) < full {
				messages = append(messages, excerpt.Text(f.Message, excerpt.MaxValue))
			}
		}
	}
	text := strings.Join(messages, "; ")
	if count > full {
		text = fmt.Sprintf("%d unsafe values, the first of them: %s", count, text)
	}
	return text
}

// reportUnknown reports a pod that could not be looked up. An event is sent if its DNS is wrong,
// as in mode Force, or if it does not start.
func (r *Reporter) reportUnknown(p cri.Report, pod corev1.ObjectReference, log *slog.Logger) {
	switch {
	case p.Failed:
		log.Warn("sandbox failed, the kubelet tries again", "detail", p.Detail)
		r.events.record(pod, corev1.EventTypeWarning, ReasonUnknown, "the pod's DNS cannot be decided, the kubelet tries again: "+p.Detail)
	case p.Mode == cri.Force:
		log.Warn("sandbox passed with the kubelet's DNS, which mode Force replaces", "detail", p.Detail)
		r.events.record(pod, corev1.EventTypeWarning, ReasonUnknown, "the pod has the kubelet's DNS, which mode Force replaces: "+p.Detail)
	case p.Outcome == cri.UnknownPod:
		log.Debug("sandbox passed", "detail", p.Detail)
	default:
		log.Warn("sandbox passed", "detail", p.Detail)
	}
}

// dropReason is why an event was dropped.
type dropReason string

const (
	dropQueueFull dropReason = "queue_full" // more events wait than are sent
	dropRejected  dropReason = "rejected"   // by the API server
	dropNoReply   dropReason = "no_reply"   // of the API server
	dropStopped   dropReason = "stopped"    // the shim ended
	dropInvalid   dropReason = "invalid"    // names of the pod that the API server does not accept
)

// dropInterval is the time between two log lines about dropped events.
const dropInterval = time.Minute

// Drops counts dropped events, and logs their number at most once a minute. It is safe for
// concurrent use.
type Drops struct {
	dropped *prometheus.CounterVec

	mu     sync.Mutex
	counts map[dropReason]int // since the last line
	err    string             // of the last event
	logged time.Time
}

// NewDrops returns Drops whose metrics are registered with r.
func NewDrops(r prometheus.Registerer) *Drops {
	return &Drops{
		dropped: daemon.NewCounterVec(r, "dnsconfigurer_events_dropped_total", "Events that were not sent, by reason.",
			"reason", dropQueueFull, dropRejected, dropNoReply, dropStopped, dropInvalid),
		counts: map[dropReason]int{},
	}
}

// add counts n events that were dropped for the same reason, because of err if it is not nil.
func (d *Drops) add(log *slog.Logger, reason dropReason, n int, err error) {
	if n == 0 {
		return
	}
	d.dropped.WithLabelValues(string(reason)).Add(float64(n))
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.err = excerpt.Text(err.Error(), excerpt.MaxMessage)
	}
	d.counts[reason] += n
	if time.Since(d.logged) >= dropInterval {
		d.logLocked(log)
	}
}

// flush logs what was counted since the last line.
func (d *Drops) flush(log *slog.Logger) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.counts) > 0 {
		d.logLocked(log)
	}
}

func (d *Drops) logLocked(log *slog.Logger) {
	total := 0
	for _, n := range d.counts {
		total += n
	}
	log.Warn("events not sent", "count", total, "reasons", d.counts, "error", d.err)
	d.counts, d.err, d.logged = map[dropReason]int{}, "", time.Now()
}

// Reasons of the events on running pods.
const (
	ReasonRefreshed = "DNSRefreshed"
	ReasonDrift     = "DNSDrift"
	ReasonRestored  = "DNSRestored"
)

// RefreshResult is what the agent did with the file of a running pod.
type RefreshResult string

// The results. All except Refreshed and WrittenBack leave the file as it
// is.
const (
	Refreshed    RefreshResult = "refreshed"
	WrittenBack  RefreshResult = "restored"      // the file has the kubelet's text again, by command
	UpToDate     RefreshResult = "unchanged"     // the file has the decision
	DryRun       RefreshResult = "dry_run"       // Refreshed, but for the setting
	NotPermitted RefreshResult = "not_permitted" // by mode, setting or annotation
	Unconfirmed  RefreshResult = "unconfirmed"   // the node facts are new, and no pod has confirmed them yet
	Modified     RefreshResult = "pod_changed"   // the pod has changed the file
	Refused      RefreshResult = "refused"       // there is no DNS configuration for the pod
	Failed       RefreshResult = "failed"        // the file cannot be read or written
)

// RefreshResults returns all results.
func RefreshResults() []RefreshResult {
	return []RefreshResult{Refreshed, WrittenBack, UpToDate, DryRun, NotPermitted, Unconfirmed, Modified, Refused, Failed}
}

// Drift is how the file of a running pod differs from the decision; "" if it does not.
type Drift string

// The kinds of drift.
const (
	Missing    Drift = "missing"
	Unreadable Drift = "unreadable"
	Empty      Drift = "empty"
	Different  Drift = "different" // the pod has changed the file
	Outdated   Drift = "outdated"  // the decision has changed
)

// Drifts returns all kinds of drift.
func Drifts() []Drift { return []Drift{Missing, Unreadable, Empty, Different, Outdated} }

// Refresh describes what was done with the file of a running pod.
type Refresh struct {
	Sandbox cri.Sandbox
	Result  RefreshResult
	Drift   Drift             // before
	DNS     resolvconf.Config // the decision
	Detail  string            // an error, or ""; at most 1,024 bytes
}

// ReportRefresh logs r and records an event on the pod, for files that were rewritten and those
// that differ, except by a change that the pod does not follow. It never blocks.
func (r *Reporter) ReportRefresh(p Refresh) {
	s := p.Sandbox
	log := r.log.With("pod", name(s.Namespace)+"/"+name(s.Name), "podUID", name(s.UID), "result", p.Result)
	dns := excerptConfig(p.DNS)
	switch {
	case p.Result == Refreshed:
		log.Info("resolv.conf refreshed", attrs(dns)...)
		r.events.record(podReference(s), corev1.EventTypeNormal, ReasonRefreshed,
			fmt.Sprintf("resolv.conf of the running pod is rewritten: %q", p.DNS.String()))
	case p.Result == WrittenBack:
		log.Info("resolv.conf restored")
		r.events.record(podReference(s), corev1.EventTypeNormal, ReasonRestored,
			"resolv.conf of the running pod has the kubelet's text again, by command")
	case p.Result == DryRun:
		log.Info("resolv.conf would be refreshed", attrs(dns)...)
	case p.Drift == Outdated && (p.Result == NotPermitted || p.Result == Unconfirmed): // as with the kubelet
	default:
		log.Warn("resolv.conf differs from the decision", "drift", p.Drift, "detail", p.Detail)
		r.events.record(podReference(s), corev1.EventTypeWarning, ReasonDrift,
			fmt.Sprintf("resolv.conf of the running pod is not as decided: %s (%s) %s", p.Drift, p.Result, p.Detail))
	}
}

func podReference(s cri.Sandbox) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: s.Namespace, Name: s.Name, UID: types.UID(s.UID)}
}

// attrs returns a DNS configuration as attributes of a log line.
func attrs(c resolvconf.Config) []any {
	return []any{"nameservers", c.Nameservers, "searches", c.Searches, "options", c.Options}
}

func excerptConfig(c resolvconf.Config) resolvconf.Config {
	return resolvconf.Config{
		Nameservers: excerpt.List(c.Nameservers), Searches: excerpt.List(c.Searches), Options: excerpt.List(c.Options),
	}
}

// Reasons of the events on nodes.
const (
	ReasonBypassBegan = "ShimBypassed"
	ReasonBypassEnded = "ShimRestored"

	ReasonHostFileUnusable = "HostResolvConfUnusable"
	ReasonHostFileUsable   = "HostResolvConfUsable"
)

// nodeReference returns a reference to a node. Like in the kubelet's events, the UID is the node's
// name, so that kubectl describe node shows the event.
func nodeReference(node string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)}
}

// SendNode sends an event about a node.
func SendNode(ctx context.Context, client rest.Interface, node, kind, reason, message string) error {
	e := newEvent(node, nodeReference(node), kind, reason, message)
	if err := client.Post().Namespace(e.Namespace).Resource("events").Timeout(callTimeout).Body(e).Do(ctx).Error(); err != nil {
		return fmt.Errorf("sending an event about the node: %w", err)
	}
	return nil
}
