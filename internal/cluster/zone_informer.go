// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

// backoff is the pause between requests to an API server that fails. Every server of the
// cluster DNS retries, so it must not be shorter; names are stale meanwhile, so it must not
// grow to the 30 s and more of client-go.
var backoff = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 10 * time.Second}

// backoffReset is the time without failure after which the backoff starts again.
const backoffReset = 2 * time.Minute

// informer lists and watches a resource. It is the store of a cache.Reflector, but stores
// nothing: it converts each object and sends it to the Syncer.
type informer struct {
	resource
	client rest.Interface
	converter
	changes chan<- change
	stopped <-chan struct{} // closed when changes is no longer received from
	refused chan<- struct{} // receives a token when a connection was refused
	log     *slog.Logger

	early []*object // of the first list, not sent yet

	listed    atomic.Bool
	lastReply atomic.Int64 // in nanoseconds since 1970; 0: none
	failure   atomic.Pointer[error]
}

// change is a complete list or an event of an informer.
type change struct {
	informer *informer
	list     bool // objects are the complete list; else they have changed
	objects  []*object
	trigger  *trigger // of an event; nil: unknown. A list may be far behind the changes that led to it
}

func (i *informer) run(ctx context.Context) {
	b := backoff
	r := cache.NewReflectorWithOptions(i.listWatch(), i.example, i, cache.ReflectorOptions{Name: i.name, Backoff: &b})
	// RunWithContext is not used: it reports each error to the process-wide handlers of
	// client-go, which may sleep. noteReply has logged it.
	_ = b.DelayWithReset(clock.RealClock{}, backoffReset).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		_ = r.ListAndWatchWithContext(ctx)
		return false, nil
	})
}

func (i *informer) listWatch() *cache.ListWatch {
	lw := ListWatch(i.client, i.name, i.selector)
	list, open := lw.ListWithContextFunc, lw.WatchFuncWithContext
	lw.ListWithContextFunc = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		l, err := list(ctx, o)
		i.noteReply(err)
		return l, err
	}
	lw.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		w, err := open(ctx, o)
		if err == nil || o.SendInitialEvents == nil { // after a failed streaming list, the plain one is decisive
			i.noteReply(err)
		}
		return w, err
	}
	return lw
}

// noteReply records the outcome of a request, and logs when the API server becomes
// unreachable or reachable.
func (i *informer) noteReply(err error) {
	if err == nil {
		i.lastReply.Store(time.Now().UnixNano())
		if i.failure.Swap(nil) != nil {
			i.log.Info("API server responds again", "resource", i.name)
		}
		return
	}
	if errors.Is(err, context.Canceled) {
		return // Run is ending
	}
	if i.failure.Swap(&err) == nil {
		i.log.Warn("cannot list or watch, keeping the names", "resource", i.name, "error", err)
	}
	if net.IsConnectionRefused(err) {
		select {
		case i.refused <- struct{}{}:
		default: // a token is waiting
		}
	}
}

func (i *informer) send(c change) {
	i.lastReply.Store(time.Now().UnixNano())
	c.informer = i
	select {
	case i.changes <- c:
	case <-i.stopped:
	}
}

// Add implements [cache.ReflectorStore].
func (i *informer) Add(obj any) error {
	o, err := i.convert(obj)
	if err == nil {
		i.send(change{objects: []*object{o}, trigger: triggerOf(obj)})
	}
	return err
}

// Update implements [cache.ReflectorStore].
func (i *informer) Update(obj any) error { return i.Add(obj) }

// Delete implements [cache.ReflectorStore].
func (i *informer) Delete(obj any) error {
	m, err := meta.Accessor(obj)
	if err == nil {
		i.send(change{objects: []*object{{remarks: &remarks{absent: nameOf(m)}}}})
	}
	return err
}

// Replace implements [cache.ReflectorStore] with the objects of a complete list.
func (i *informer) Replace(objs []any, _ string) error {
	objects := make([]*object, len(objs))
	for n, obj := range objs {
		o, ok := obj.(*object)
		if !ok {
			var err error
			if o, err = i.convert(obj); err != nil {
				return err
			}
		}
		objects[n] = o
	}
	i.early = nil
	i.send(change{list: true, objects: objects})
	return nil
}

// Bookmark implements [cache.ReflectorBookmarkStore].
func (i *informer) Bookmark(string) error {
	i.lastReply.Store(time.Now().UnixNano())
	return nil
}

// Resync implements [cache.ReflectorStore]. It is a no-op: there is no store to compare
// with.
func (i *informer) Resync() error { return nil }

// Transformer implements [cache.TransformingStore]. It converts the objects of a streaming
// list before the reflector collects them for Replace, so that they take less memory. Those of
// the first list it also sends, so that the zone is built while others are received.
func (i *informer) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		o, err := i.convert(obj)
		if err != nil || i.zone.Snapshot().Loaded() {
			return o, err
		}
		if i.early = append(i.early, o); len(i.early) == maxBatch {
			i.send(change{objects: i.early})
			i.early = nil
		}
		return o, nil
	}
}

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// resource is an API resource from whose objects the zone is built.
type resource struct {
	name     string // as in the API: services
	selector fields.Selector
	example  runtime.Object
	put      func(e *zone.Edit, value any)
	remove   func(*zone.Edit, types.NamespacedName)
	list     func(*zone.Snapshot) iter.Seq[types.NamespacedName] // the objects in the zone
	restore  func(*zone.Edit, *Snapshot)                         // adds the objects of a snapshot
}

var (
	namespaces = resource{
		name: "namespaces", selector: fields.Everything(), example: &corev1.Namespace{},
		put:    func(e *zone.Edit, value any) { e.PutNamespace(value.(string)) },
		remove: func(e *zone.Edit, n types.NamespacedName) { e.DeleteNamespace(n.Name) },
		list:   func(s *zone.Snapshot) iter.Seq[types.NamespacedName] { return namesOf(s.Namespaces()) },
		restore: func(e *zone.Edit, s *Snapshot) {
			for _, name := range s.Namespaces {
				e.PutNamespace(name)
			}
		},
	}
	services = resource{
		name: "services", selector: fields.Everything(), example: &corev1.Service{},
		put:     func(e *zone.Edit, value any) { e.PutService(*value.(*zone.Service)) },
		remove:  func(e *zone.Edit, n types.NamespacedName) { e.DeleteService(n.Namespace, n.Name) },
		list:    func(s *zone.Snapshot) iter.Seq[types.NamespacedName] { return namesOf(s.Services()) },
		restore: func(e *zone.Edit, s *Snapshot) { putAll(s.Services, e.PutService) },
	}
	endpointSlices = resource{
		name: "endpointslices", selector: fields.Everything(), example: &EndpointSlice{},
		put:     func(e *zone.Edit, value any) { e.PutEndpointSlice(*value.(*zone.EndpointSlice)) },
		remove:  func(e *zone.Edit, n types.NamespacedName) { e.DeleteEndpointSlice(n.Namespace, n.Name) },
		list:    func(s *zone.Snapshot) iter.Seq[types.NamespacedName] { return namesOf(s.EndpointSlices()) },
		restore: func(e *zone.Edit, s *Snapshot) { putAll(s.EndpointSlices, e.PutEndpointSlice) },
	}
	pods = resource{
		name: "pods", selector: fields.ParseSelectorOrDie("status.phase!=Succeeded,status.phase!=Failed"), example: &corev1.Pod{},
		put:     func(e *zone.Edit, value any) { e.PutPod(*value.(*zone.Pod)) },
		remove:  func(e *zone.Edit, n types.NamespacedName) { e.DeletePod(n.Namespace, n.Name) },
		list:    func(s *zone.Snapshot) iter.Seq[types.NamespacedName] { return namesOf(s.Pods()) },
		restore: func(e *zone.Edit, s *Snapshot) { putAll(s.Pods, e.PutPod) },
	}
)

func namesOf[T any](values iter.Seq[T]) iter.Seq[types.NamespacedName] {
	return func(yield func(types.NamespacedName) bool) {
		for v := range values {
			if !yield(nameOfValue(v)) {
				return
			}
		}
	}
}

func putAll[T any](objects []*T, put func(T)) {
	for _, o := range objects {
		put(*o)
	}
}

// replaceAll replaces the objects of the resource in the zone.
func (r *resource) replaceAll(e *zone.Edit, objects []*object) {
	keep := make(map[types.NamespacedName]bool, len(objects))
	for _, o := range objects {
		if o.value != nil {
			keep[o.name()] = true
		}
	}
	var gone []types.NamespacedName
	for n := range r.list(e.Snapshot()) {
		if !keep[n] {
			gone = append(gone, n)
		}
	}
	for _, n := range gone {
		r.remove(e, n)
	}
	for _, o := range objects {
		if o.value != nil {
			r.put(e, o.value)
		}
	}
}

// apply adds, updates or removes one object.
func (r *resource) apply(e *zone.Edit, o *object) {
	if o.value == nil {
		r.remove(e, o.absent)
	} else {
		r.put(e, o.value)
	}
}
