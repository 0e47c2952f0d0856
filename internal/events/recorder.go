// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package events

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
	queueSize    = 256              // events that wait to be sent; a node starts fewer pods at once
	maxSent      = 1024             // events whose repetitions are counted
	sendInterval = time.Minute      // between two updates of the same event
	callTimeout  = 10 * time.Second // of a call
	retryPause   = 10 * time.Second // after a call without a reply
	maxTries     = 12
	maxName      = 253 // bytes
)

// A Recorder sends events to the API server. A repeated event raises the count of the first.
type Recorder struct {
	client rest.Interface // nil: events are dropped
	source corev1.EventSource
	log    *slog.Logger
	queue  chan *corev1.Event

	sent map[eventKey]sentEvent // used by Run only
}

// eventKey is equal for an event and its repetitions.
type eventKey struct {
	pod             types.UID
	reason, message string
}

// sentEvent is an event that was sent to the API server. Its count may be higher than on the
// API server.
type sentEvent struct {
	event *corev1.Event
	at    time.Time
}

// NewRecorder returns a recorder. Without a client it drops all events.
func NewRecorder(client rest.Interface, source corev1.EventSource, log *slog.Logger) *Recorder {
	return &Recorder{client: client, source: source, log: log, queue: make(chan *corev1.Event, queueSize), sent: map[eventKey]sentEvent{}}
}

// Record queues an event about a pod. It never blocks: if the queue is full, the event is
// logged and dropped.
func (r *Recorder) Record(pod corev1.ObjectReference, kind, reason, message string) {
	if r.client == nil {
		return
	}
	now := metav1.Now()
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: pod.Namespace, Name: eventName(pod.Name, now.UnixNano())},
		InvolvedObject: pod, Type: kind, Reason: reason, Message: message,
		Source: r.source, ReportingController: r.source.Component, ReportingInstance: r.source.Host,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	select {
	case r.queue <- e:
	default:
		r.log.Warn("event dropped, queue full", "pod", pod.Namespace+"/"+pod.Name, "reason", reason, "message", message)
	}
}

// eventName returns the name of an event about a pod in the form of client-go.
func eventName(pod string, nanoseconds int64) string {
	suffix := fmt.Sprintf(".%x", nanoseconds)
	return strings.TrimRight(pod[:min(len(pod), maxName-len(suffix))], "-.") + suffix
}

// Run sends events until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-r.queue:
			r.sendOrCount(ctx, e)
		}
	}
}

// sendOrCount sends e, or counts it if the same event was sent less than sendInterval ago.
func (r *Recorder) sendOrCount(ctx context.Context, e *corev1.Event) {
	key := eventKey{e.InvolvedObject.UID, e.Reason, e.Message}
	previous, repeated := r.sent[key]
	if repeated {
		e.Name, e.FirstTimestamp, e.Count = previous.event.Name, previous.event.FirstTimestamp, previous.event.Count+1
		if time.Since(previous.at) < sendInterval {
			r.sent[key] = sentEvent{e, previous.at}
			return
		}
	} else if len(r.sent) == maxSent {
		clear(r.sent)
	}
	r.sent[key] = sentEvent{e, time.Now()}
	if err := r.send(ctx, e, repeated); err != nil {
		delete(r.sent, key)
		r.log.Warn("event not sent", "pod", e.Namespace+"/"+e.InvolvedObject.Name, "reason", e.Reason, "message", e.Message, "error", err)
	}
}

// send creates e, or updates it if it is repeated. It retries while there is no reply.
func (r *Recorder) send(ctx context.Context, e *corev1.Event, repeated bool) (err error) {
	for range maxTries {
		if repeated {
			err = r.updateCount(ctx, e)
			repeated = !apierrors.IsNotFound(err) // events expire
		}
		if !repeated {
			err = r.client.Post().Namespace(e.Namespace).Resource("events").Timeout(callTimeout).Body(e).Do(ctx).Error()
		}
		if err == nil || apierrors.IsAlreadyExists(err) { // created by a call whose reply was lost
			return nil
		}
		if _, replied := errors.AsType[*apierrors.StatusError](err); replied {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryPause):
		}
	}
	return err
}

// updateCount sets the count and the time of an event that the API server has.
func (r *Recorder) updateCount(ctx context.Context, e *corev1.Event) error {
	patch, err := json.Marshal(map[string]any{"count": e.Count, "lastTimestamp": e.LastTimestamp})
	if err != nil {
		return err
	}
	return r.client.Patch(types.MergePatchType).Namespace(e.Namespace).Resource("events").Name(e.Name).Timeout(callTimeout).Body(patch).Do(ctx).Error()
}
