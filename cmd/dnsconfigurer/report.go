// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

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

// Reasons of the events that the shim sends about pods. The kubelet sends its own.
const (
	eventConfigured = "DNSConfigured"
	eventMismatch   = "NodeFactsMismatch"
	eventUnsafe     = "UnsafeDNSValue"
)

// reporter tells people what became of sandboxes: a line in the log for each, and an
// event on the pod where the shim changed something or could not.
type reporter struct {
	log    *slog.Logger
	events *events
}

func newReporter(client rest.Interface, node string, log *slog.Logger) *reporter {
	return &reporter{log, newEvents(client, corev1.EventSource{Component: "dnsconfigurer", Host: node}, log)}
}

// run sends events until ctx ends.
func (r *reporter) run(ctx context.Context) error {
	r.events.run(ctx)
	return nil
}

// report never waits.
func (r *reporter) report(p cri.Report) {
	s := p.Sandbox
	log := r.log.With("pod", s.Namespace+"/"+s.Name, "podUID", s.UID, "outcome", p.Outcome)
	pod := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: s.Namespace, Name: s.Name, UID: types.UID(s.UID)}
	switch p.Outcome {
	case cri.Edited:
		log.Info("sandbox edited", "nameservers", p.DNS.Nameservers, "searches", p.DNS.Searches, "options", p.DNS.Options)
		r.events.add(pod, corev1.EventTypeNormal, eventConfigured, fmt.Sprintf("resolv.conf is set by dnsconfigurer: %q", p.DNS.String()))
		for _, f := range p.Findings {
			if f.Code == policy.CodeUnsafeValue {
				r.events.add(pod, corev1.EventTypeWarning, eventUnsafe, f.Message)
			}
		}
	case cri.FactsMismatch:
		log.Warn("sandbox passed, the facts about the node are not the kubelet's", "detail", p.Detail)
		r.events.add(pod, corev1.EventTypeWarning, eventMismatch, p.Detail)
	case cri.Panicked, cri.MalformedRequest:
		log.Error("sandbox passed", "detail", p.Detail)
	case cri.LookupFailed, cri.LookupTimeout, cri.Refused:
		log.Warn("sandbox passed", "detail", p.Detail)
	default:
		log.Debug("sandbox passed", "detail", p.Detail)
	}
}
