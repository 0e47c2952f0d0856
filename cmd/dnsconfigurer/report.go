// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

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
	client rest.Interface // nil: no events
	events record.EventBroadcaster
	record record.EventRecorder
}

func newReporter(client rest.Interface, node string, log *slog.Logger) *reporter {
	events := record.NewBroadcaster()
	return &reporter{
		log: log, client: client, events: events,
		record: events.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: "dnsconfigurer", Host: node}),
	}
}

// run sends events until ctx ends.
func (r *reporter) run(ctx context.Context) error {
	if r.client != nil {
		defer r.events.StartRecordingToSink(eventSink{r.client}).Stop()
	}
	<-ctx.Done()
	r.events.Shutdown()
	return nil
}

// report never waits: the broadcaster drops events that it cannot take.
func (r *reporter) report(p cri.Report) {
	s := p.Sandbox
	log := r.log.With("pod", s.Namespace+"/"+s.Name, "podUID", s.UID, "outcome", p.Outcome)
	pod := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: s.Namespace, Name: s.Name, UID: types.UID(s.UID)}
	switch p.Outcome {
	case cri.Edited:
		log.Info("sandbox edited", "nameservers", p.DNS.Nameservers, "searches", p.DNS.Searches, "options", p.DNS.Options)
		r.record.Eventf(pod, corev1.EventTypeNormal, eventConfigured, "resolv.conf is set by dnsconfigurer: %q", p.DNS.String())
		for _, f := range p.Findings {
			if f.Code == policy.CodeUnsafeValue {
				r.record.Event(pod, corev1.EventTypeWarning, eventUnsafe, f.Message)
			}
		}
	case cri.FactsMismatch:
		log.Warn("sandbox passed, the facts about the node are not the kubelet's", "detail", p.Detail)
		r.record.Event(pod, corev1.EventTypeWarning, eventMismatch, p.Detail)
	case cri.Panicked, cri.MalformedRequest:
		log.Error("sandbox passed", "detail", p.Detail)
	case cri.LookupFailed, cri.LookupTimeout, cri.Refused:
		log.Warn("sandbox passed", "detail", p.Detail)
	default:
		log.Debug("sandbox passed", "detail", p.Detail)
	}
}

// eventSink sends events to the API.
type eventSink struct{ client rest.Interface }

func (s eventSink) Create(e *corev1.Event) (*corev1.Event, error) {
	return s.send(s.client.Post(), e, e)
}

func (s eventSink) Update(e *corev1.Event) (*corev1.Event, error) {
	return s.send(s.client.Put().Name(e.Name), e, e)
}

func (s eventSink) Patch(e *corev1.Event, patch []byte) (*corev1.Event, error) {
	return s.send(s.client.Patch(types.StrategicMergePatchType).Name(e.Name), e, patch)
}

func (eventSink) send(r *rest.Request, e *corev1.Event, body any) (*corev1.Event, error) {
	sent := new(corev1.Event)
	err := r.Namespace(e.Namespace).Resource("events").Body(body).Do(context.Background()).Into(sent)
	return sent, err
}
