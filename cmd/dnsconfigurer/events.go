// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

const (
	eventQueue   = 256              // events that wait; a node starts fewer pods at once
	eventMemory  = 1024             // events whose repetitions are counted
	eventEvery   = time.Minute      // the same event is not sent more often
	eventTimeout = 10 * time.Second // of a call
	eventPause   = 10 * time.Second // before an API that does not answer is tried again
	eventTries   = 12
	maxEventName = 253 // bytes
)

// events sends events to the API. An event that happens again raises the count of
// the one that is there. client-go's recorder does more, and half of its code reads
// OpenAPI: two megabytes of memory in every shim.
type events struct {
	client rest.Interface // nil: events go nowhere
	source corev1.EventSource
	log    *slog.Logger
	queue  chan *corev1.Event
}

func newEvents(client rest.Interface, source corev1.EventSource, log *slog.Logger) *events {
	return &events{client: client, source: source, log: log, queue: make(chan *corev1.Event, eventQueue)}
}

// add takes an event about pod and never waits: an event for which the queue has no
// room is dropped.
func (v *events) add(pod corev1.ObjectReference, kind, reason, message string) {
	if v.client == nil {
		return
	}
	now := metav1.Now()
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: pod.Namespace, Name: eventName(pod.Name, now.UnixNano())},
		InvolvedObject: pod, Type: kind, Reason: reason, Message: message,
		Source: v.source, ReportingController: v.source.Component, ReportingInstance: v.source.Host,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	select {
	case v.queue <- e:
	default:
		v.log.Warn("an event is dropped, others wait for the API", "pod", pod.Namespace+"/"+pod.Name, "reason", reason, "message", message)
	}
}

// eventName returns the name of an event about a pod, as client-go forms it.
func eventName(pod string, nanoseconds int64) string {
	suffix := fmt.Sprintf(".%x", nanoseconds)
	return strings.TrimRight(pod[:min(len(pod), maxEventName-len(suffix))], "-.") + suffix
}

// eventKey is what the same event has in common.
type eventKey struct {
	pod             types.UID
	reason, message string
}

// sent is an event that the API has, perhaps with a lower count.
type sent struct {
	event *corev1.Event
	at    time.Time
}

// run sends events until ctx ends.
func (v *events) run(ctx context.Context) {
	known := map[eventKey]sent{}
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-v.queue:
			key := eventKey{e.InvolvedObject.UID, e.Reason, e.Message}
			before, again := known[key]
			if again {
				e.Name, e.FirstTimestamp, e.Count = before.event.Name, before.event.FirstTimestamp, before.event.Count+1
				if time.Since(before.at) < eventEvery {
					known[key] = sent{e, before.at}
					continue
				}
			} else if len(known) == eventMemory {
				clear(known)
			}
			known[key] = sent{e, time.Now()}
			if err := v.send(ctx, e, again); err != nil {
				delete(known, key)
				v.log.Warn("the API did not take an event", "pod", e.Namespace+"/"+e.InvolvedObject.Name, "reason", e.Reason, "message", e.Message, "error", err)
			}
		}
	}
}

// send brings e to the API, and tries again while there is no answer.
func (v *events) send(ctx context.Context, e *corev1.Event, again bool) (err error) {
	for range eventTries {
		if again {
			if err = v.raise(ctx, e); apierrors.IsNotFound(err) { // events do not live long
				again = false
			}
		}
		if !again {
			err = v.client.Post().Namespace(e.Namespace).Resource("events").Timeout(eventTimeout).Body(e).Do(ctx).Error()
		}
		if err == nil || apierrors.IsAlreadyExists(err) { // by the try before, which had no answer
			return nil
		}
		if _, answered := errors.AsType[*apierrors.StatusError](err); answered {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(eventPause):
		}
	}
	return err
}

// raise gives the API's event the count and the time of e.
func (v *events) raise(ctx context.Context, e *corev1.Event) error {
	patch, err := json.Marshal(map[string]any{"count": e.Count, "lastTimestamp": e.LastTimestamp})
	if err != nil {
		return err
	}
	return v.client.Patch(types.MergePatchType).Namespace(e.Namespace).Resource("events").Name(e.Name).Timeout(eventTimeout).Body(patch).Do(ctx).Error()
}
