// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

const (
	queueSize    = 256              // events that wait to be sent; a node starts fewer pods at once
	maxSent      = 1024             // events whose repetitions are counted
	sendInterval = time.Minute      // between two updates of the same event
	callTimeout  = 10 * time.Second // of a call
	retryPause   = 10 * time.Second // after a call without a reply
	maxTries     = 12               // calls without a reply: two minutes
	maxName      = 253              // bytes
	endTimeout   = time.Second      // for the events that wait when the recorder ends
)

// A recorder sends events to the API server. A pod or node has one event of each reason: a
// repetition raises its count and replaces its message.
//
// client-go has a recorder of events, too. Half of its code reads OpenAPI, which costs every process
// two megabytes of memory.
type recorder struct {
	client rest.Interface // nil: events are discarded
	node   string
	log    *slog.Logger
	drops  *Drops

	mu    sync.Mutex
	queue []queuedEvent // at most queueSize
	wake  chan struct{} // has a value if the queue may have an event

	sent map[eventKey]sentEvent // used by run only
}

// queuedEvent is an event that waits to be sent.
type queuedEvent struct {
	*corev1.Event
	tries   int       // calls without a reply
	due     time.Time // of the next call
	counted bool      // as a repetition
}

// eventKey identifies the event of a pod or node.
type eventKey struct {
	object types.UID
	reason string
}

// sentEvent describes an event that was sent to the API server.
type sentEvent struct {
	name  string
	first metav1.Time
	count int32     // may be higher than on the API server
	at    time.Time // of the last call
}

// record queues an event about a pod or node. It never blocks: if the queue is full, the event is
// dropped. A long message is cut.
func (r *recorder) record(object corev1.ObjectReference, kind, reason, message string) {
	if r.client == nil {
		return
	}
	if len(object.Name) > maxName || len(object.Namespace) > maxName || len(object.UID) > maxName {
		r.drops.add(r.log, dropInvalid, 1, nil)
		return
	}
	if !r.push(queuedEvent{Event: newEvent(r.node, object, kind, reason, message)}) {
		r.drops.add(r.log, dropQueueFull, 1, nil)
	}
}

// newEvent returns an event that is sent from a node. That about a node is in the namespace default, like the
// kubelet's.
func newEvent(node string, object corev1.ObjectReference, kind, reason, message string) *corev1.Event {
	const component = "dnsconfigurer"
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cmp.Or(object.Namespace, metav1.NamespaceDefault), Name: eventName(object.Name, now.UnixNano()),
		},
		InvolvedObject: object, Type: kind, Reason: reason, Message: excerpt.Text(message, excerpt.MaxMessage),
		Source: corev1.EventSource{Component: component, Host: node}, ReportingController: component, ReportingInstance: node,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}

// eventName returns the name of an event about an object in the form of client-go.
func eventName(object string, nanoseconds int64) string {
	suffix := fmt.Sprintf(".%x", nanoseconds)
	return strings.TrimRight(object[:min(len(object), maxName-len(suffix))], "-.") + suffix
}

// push adds e to the queue unless it is full.
func (r *recorder) push(e queuedEvent) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == queueSize {
		return false
	}
	r.queue = append(r.queue, e)
	daemon.Notify(r.wake)
	return true
}

// next removes the first event that is due. If there is none it returns the time until one is,
// or zero for an empty queue.
func (r *recorder) next(now time.Time) (e queuedEvent, found bool, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, e := range r.queue {
		until := e.due.Sub(now)
		if until <= 0 {
			r.queue = slices.Delete(r.queue, i, i+1)
			return e, true, 0
		}
		if wait == 0 || until < wait {
			wait = until
		}
	}
	return queuedEvent{}, false, wait
}

// run sends events until ctx ends, and then for at most a second those that wait.
func (r *recorder) run(ctx context.Context) error {
	var unanswered *corev1.Event // the last call had no reply
	for ctx.Err() == nil {
		e, found, wait := r.next(time.Now())
		if !found {
			r.await(ctx, wait)
			continue
		}
		if r.sendOrCount(ctx, e) {
			unanswered = nil
			continue
		}
		// One event without a reply does not delay the others; an API server that replies to
		// none gets a call every ten seconds.
		if unanswered != nil && unanswered != e.Event {
			daemon.Sleep(ctx, retryPause)
		}
		unanswered = e.Event
	}
	r.end(ctx)
	return nil
}

// await waits for a new event, and at most for a duration if that is not zero.
func (r *recorder) await(ctx context.Context, wait time.Duration) {
	var due <-chan time.Time
	if wait > 0 {
		due = time.After(wait)
	}
	select {
	case <-r.wake:
	case <-due:
	case <-ctx.Done():
	}
}

// end sends the events that wait.
func (r *recorder) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	r.mu.Lock()
	queue := r.queue
	r.queue = nil
	r.mu.Unlock()
	unsent := 0
	for _, e := range queue {
		e.tries = maxTries // do not queue it again
		if ctx.Err() != nil {
			unsent++
		} else {
			r.sendOrCount(ctx, e)
		}
	}
	r.drops.add(r.log, dropStopped, unsent, nil)
	r.drops.flush(r.log)
}

// sendOrCount sends e, or counts it if the same event was sent less than sendInterval ago. It
// reports whether the API server replied.
func (r *recorder) sendOrCount(ctx context.Context, e queuedEvent) (replied bool) {
	key := eventKey{e.InvolvedObject.UID, e.Reason}
	previous, repeated := r.sent[key]
	if repeated && !e.counted {
		e.counted = true
		previous.count++
		r.sent[key] = previous
		if time.Since(previous.at) < sendInterval {
			return true
		}
	}
	if repeated {
		e.Name, e.FirstTimestamp, e.Count = previous.name, previous.first, previous.count
	}
	err := r.send(ctx, e.Event, repeated)
	_, isStatus := errors.AsType[*apierrors.StatusError](err)
	switch {
	case err == nil:
		if !repeated && len(r.sent) == maxSent {
			clear(r.sent)
		}
		r.sent[key] = sentEvent{name: e.Name, first: e.FirstTimestamp, count: e.Count, at: time.Now()}
		return true
	case isStatus:
		delete(r.sent, key)
		r.drops.add(r.log, dropRejected, 1, err)
		return true
	}
	e.due = time.Now().Add(retryPause)
	if e.tries++; e.tries >= maxTries || !r.push(e) {
		r.drops.add(r.log, dropNoReply, 1, err)
	}
	return false
}

// send creates e, or updates what changes in it if it is repeated.
func (r *recorder) send(ctx context.Context, e *corev1.Event, repeated bool) (err error) {
	if repeated {
		patch, err := json.Marshal(map[string]any{"count": e.Count, "lastTimestamp": e.LastTimestamp, "message": e.Message})
		if err != nil {
			return err
		}
		err = r.client.Patch(types.MergePatchType).Namespace(e.Namespace).Resource("events").Name(e.Name).Timeout(callTimeout).Body(
			patch).Do(ctx).Error()
		if !apierrors.IsNotFound(err) { // events expire
			return err
		}
	}
	err = r.client.Post().Namespace(e.Namespace).Resource("events").Timeout(callTimeout).Body(e).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) { // created by a call whose reply was lost
		return nil
	}
	return err
}
