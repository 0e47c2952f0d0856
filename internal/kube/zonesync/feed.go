// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zonesync

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// backoff is how often an API server that does not answer is asked. Every server of
// the cluster's DNS does it, so not more often; and names are stale meanwhile, so not
// as seldom as client-go's half a minute and more.
var backoff = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 10 * time.Second}

// backoffReset is the time without failure after which it begins anew.
const backoffReset = 2 * time.Minute

// feed brings the objects of one kind from the API. It is the store of a
// cache.Reflector that stores nothing: what comes is handed on.
type feed struct {
	kind
	client rest.Interface
	converter
	changes chan<- change
	stopped <-chan struct{} // then nobody takes changes
	refused chan<- struct{} // hears, without delay, of a connection that was refused
	log     *slog.Logger

	listed atomic.Bool
	heard  atomic.Int64 // nanoseconds since 1970 of the last sign of life; 0: none
	failed atomic.Pointer[error]
}

// change is news of one kind.
type change struct {
	feed    *feed
	list    bool // objects are all there are; else they are changed ones
	objects []object
}

func (f *feed) run(ctx context.Context) {
	own := backoff
	r := cache.NewReflectorWithOptions(f.listWatch(), f.example, f, cache.ReflectorOptions{Name: f.resource, Backoff: &own})
	// Not RunWithContext: it logs each error, from a place that all of the process
	// shares and where it may wait. Ours have gone to answered.
	_ = own.DelayWithReset(clock.RealClock{}, backoffReset).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		_ = r.ListAndWatchWithContext(ctx)
		return false, nil
	})
}

func (f *feed) listWatch() *cache.ListWatch {
	plain := cache.NewFilteredListWatchFromClient(f.client, f.resource, metav1.NamespaceAll, func(o *metav1.ListOptions) {
		o.FieldSelector = f.selector
	})
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			l, err := plain.ListWithContextFunc(ctx, o)
			f.answered(err)
			return l, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := plain.WatchFuncWithContext(ctx, o)
			if err == nil || o.SendInitialEvents == nil {
				f.answered(err)
			} else {
				// A plain list follows, and tells more. On some errors of a streaming list
				// the reflector sleeps for up to a minute and does not look at ctx
				// (watchList in client-go 0.37), unless it does not recognize them.
				err = errors.New(err.Error())
			}
			return w, err
		},
	}
}

// answered takes note of how the API server took a request.
func (f *feed) answered(err error) {
	if err == nil {
		f.heard.Store(time.Now().UnixNano())
		if f.failed.Swap(nil) != nil {
			f.log.Info("the API server answers again", "resource", f.resource)
		}
		return
	}
	if errors.Is(err, context.Canceled) {
		return // by us
	}
	if f.failed.Swap(&err) == nil {
		f.log.Warn("the API server does not answer, names stay as they are", "resource", f.resource, "error", err)
	}
	if net.IsConnectionRefused(err) {
		select {
		case f.refused <- struct{}{}:
		default: // it knows
		}
	}
}

func (f *feed) send(c change) {
	f.heard.Store(time.Now().UnixNano())
	c.feed = f
	select {
	case f.changes <- c:
	case <-f.stopped:
	}
}

// Add takes an object that is new.
func (f *feed) Add(obj any) error {
	o, err := f.convert(obj)
	if err == nil {
		f.send(change{objects: []object{o}})
	}
	return err
}

// Update takes an object that has changed.
func (f *feed) Update(obj any) error { return f.Add(obj) }

// Delete takes an object that is gone.
func (f *feed) Delete(obj any) error {
	m, err := meta.Accessor(obj)
	if err == nil {
		f.send(change{objects: []object{{name: name{m.GetNamespace(), m.GetName()}}}})
	}
	return err
}

// Replace takes all objects there are.
func (f *feed) Replace(objs []any, _ string) error {
	objects := make([]object, len(objs))
	for i, obj := range objs {
		o, ok := obj.(*listed)
		if !ok {
			made, err := f.convert(obj)
			if err != nil {
				return err
			}
			o = &listed{made}
		}
		objects[i] = o.object
		objects[i].changed = time.Time{} // the list says nothing of how long it took us to hear
	}
	f.send(change{list: true, objects: objects})
	return nil
}

// Bookmark is a sign of life.
func (f *feed) Bookmark(string) error {
	f.heard.Store(time.Now().UnixNano())
	return nil
}

// Resync does nothing: there is no store to compare with.
func (f *feed) Resync() error { return nil }

// Transformer cuts objects down before the reflector gathers them for Replace.
func (f *feed) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		o, err := f.convert(obj)
		return &listed{o}, err
	}
}

// listed is an object while a streaming list is gathered.
type listed struct{ object }

// GetObjectMeta returns the name, by which the objects of a list are told apart.
func (l *listed) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: l.namespace, Name: l.name.name}
}
