// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
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
	return &Reporter{log, newRecorder(client, corev1.EventSource{Component: "dnsconfigurer", Host: node}, drops, log)}
}

// Run sends events until ctx ends, and a second longer those that wait.
func (r *Reporter) Run(ctx context.Context) error { return r.events.run(ctx) }

// Report logs the outcome of a sandbox and records its events. It never blocks. A log line
// has at most 4 KiB, however large the pod is.
func (r *Reporter) Report(p cri.Report) {
	s := p.Sandbox
	log := r.log.With("pod", name(s.Namespace)+"/"+name(s.Name), "podUID", name(s.UID), "outcome", p.Outcome)
	pod := podReference(s)
	switch p.Outcome {
	case cri.UnknownPod, cri.LookupTimeout, cri.LookupFailed:
		r.reportUnknown(p, pod, log)
	case cri.Edited, cri.Late:
		dns := excerptConfig(p.DNS)
		log.Info("sandbox edited", "nameservers", dns.Nameservers, "searches", dns.Searches, "options", dns.Options)
		if !s.HasDNS || !s.DNS.Equal(p.DNS) { // not only the order of options
			r.events.record(pod, corev1.EventTypeNormal, ReasonConfigured,
				fmt.Sprintf("resolv.conf is set by dnsconfigurer: %q", dns.String()))
		}
		if message := unsafeValues(p.Findings); message != "" {
			r.events.record(pod, corev1.EventTypeWarning, ReasonUnsafe, message)
		}
	case cri.Observed:
		dns := excerptConfig(p.DNS)
		log.Info("sandbox would be edited", "nameservers", dns.Nameservers, "searches", dns.Searches, "options", dns.Options)
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
	node := nodeReference(r.events.source.Host)
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
