// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Reasons of the events on pods.
const (
	ReasonConfigured = "DNSConfigured"
	ReasonMismatch   = "NodeFactsMismatch"
	ReasonUnsafe     = "UnsafeDNSValue"
)

// A Reporter reports outcomes of sandboxes.
type Reporter struct {
	log    *slog.Logger
	events *Recorder
}

// NewReporter returns the reporter of a node. Without a client there are no events.
func NewReporter(client rest.Interface, node string, log *slog.Logger) *Reporter {
	return &Reporter{log, NewRecorder(client, corev1.EventSource{Component: "dnsconfigurer", Host: node}, log)}
}

// Run sends events until ctx ends.
func (r *Reporter) Run(ctx context.Context) error { return r.events.Run(ctx) }

// Report logs the outcome of a sandbox and records its events. It never blocks.
func (r *Reporter) Report(p cri.Report) {
	s := p.Sandbox
	log := r.log.With("pod", s.Namespace+"/"+s.Name, "podUID", s.UID, "outcome", p.Outcome)
	pod := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: s.Namespace, Name: s.Name, UID: types.UID(s.UID)}
	switch p.Outcome {
	case cri.Edited:
		log.Info("sandbox edited", "nameservers", p.DNS.Nameservers, "searches", p.DNS.Searches, "options", p.DNS.Options)
		r.events.Record(pod, corev1.EventTypeNormal, ReasonConfigured, fmt.Sprintf("resolv.conf is set by dnsconfigurer: %q", p.DNS.String()))
		for _, f := range p.Findings {
			if f.Code == policy.CodeUnsafeValue {
				r.events.Record(pod, corev1.EventTypeWarning, ReasonUnsafe, f.Message)
			}
		}
	case cri.FactsMismatch:
		log.Warn("sandbox passed, node facts differ from the kubelet's", "detail", p.Detail)
		r.events.Record(pod, corev1.EventTypeWarning, ReasonMismatch, p.Detail)
	case cri.Panicked, cri.MalformedRequest:
		log.Error("sandbox passed", "detail", p.Detail)
	case cri.LookupFailed, cri.LookupTimeout, cri.Refused:
		log.Warn("sandbox passed", "detail", p.Detail)
	default:
		log.Debug("sandbox passed", "detail", p.Detail)
	}
}
