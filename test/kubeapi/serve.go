// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t, ok := parsePath(r.URL.Path)
	query := r.URL.Query()
	verb := "list"
	switch {
	case t.name != "":
		verb = "get"
	case query.Get("watch") == "true" || query.Get("watch") == "1":
		verb = "watch"
	}
	fault := s.admit(r.Context(), verb, t.resource.name)
	selects, err := t.selector(query)
	switch {
	case fault != nil:
		fault(w, r)
	case !ok:
		fail(w, r, http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.Method != http.MethodGet:
		fail(w, r, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed)
	case err != nil:
		fail(w, r, http.StatusBadRequest, metav1.StatusReasonBadRequest)
	case verb == "get":
		s.get(w, r, t)
	case verb == "list":
		s.list(w, r, t, selects)
	default:
		s.watch(w, r, t, selects)
	}
}

// admit counts a request, waits while its resource is held, and returns the fault that
// answers it, if any.
func (s *Server) admit(ctx context.Context, verb, resource string) http.HandlerFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[verb+" "+resource]++
	if shelf := s.shelves[resource]; shelf != nil && shelf.held != nil {
		held := shelf.held
		s.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	return s.faults[verb]
}

// selector returns a function that reports whether the request selects an object.
func (t target) selector(query url.Values) (func(Object) bool, error) {
	byLabel, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return nil, err
	}
	byField, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return nil, err
	}
	return func(o Object) bool {
		return (t.namespace == "" || o.GetNamespace() == t.namespace) &&
			byLabel.Matches(labels.Set(o.GetLabels())) &&
			(byField.Empty() || byField.Matches(fieldsOf(o)))
	}, nil
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, t target) {
	s.mu.Lock()
	it, ok := s.shelves[t.resource.name].items[t.namespace+"/"+t.name]
	s.mu.Unlock()
	if !ok {
		fail(w, r, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	f := formatOf(r)
	w.Header().Set("Content-Type", f.contentType(false))
	_, _ = w.Write(it.encoded(f))
}

// list sends all objects at once. It ignores the limit of a request, as a real API server
// does when it serves a list from its cache.
func (s *Server) list(w http.ResponseWriter, r *http.Request, t target, selects func(Object) bool) {
	version, items := s.snapshot(t, selects)
	list := t.resource.emptyList()
	objects := make([]runtime.Object, len(items))
	for i, it := range items {
		objects[i] = it.object
	}
	if err := meta.SetList(list, objects); err != nil {
		panic(err)
	}
	list.(metav1.ListInterface).SetResourceVersion(strconv.Itoa(version))
	f := formatOf(r)
	w.Header().Set("Content-Type", f.contentType(false))
	_, _ = w.Write(f.encode(list))
}

// snapshot returns the objects that a request selects, and the version of the store.
func (s *Server) snapshot(t target, selects func(Object) bool) (version int, items []*item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, it := range s.shelves[t.resource.name].items {
		if selects(it.object) {
			items = append(items, it)
		}
	}
	return s.version, items
}

// watch sends events until the client or CutWatches ends it, or its timeout has passed.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, t target, selects func(Object) bool) {
	query := r.URL.Query()
	ctx := r.Context()
	if seconds, _ := strconv.Atoi(query.Get("timeoutSeconds")); seconds > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
		defer cancel()
	}
	out := stream{w: w, format: formatOf(r), target: t, selects: selects}
	out.version, _ = strconv.Atoi(query.Get("resourceVersion"))
	streaming := query.Get("sendInitialEvents") == "true"
	s.mu.Lock()
	cut, bookmark, rejected := s.cut, s.shelves[t.resource.name].bookmark, streaming && s.noStreaming
	s.mu.Unlock()
	if rejected {
		fail(w, r, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
		return
	}
	w.Header().Set("Content-Type", out.format.contentType(true))
	w.WriteHeader(http.StatusOK)
	if streaming || out.version == 0 {
		var items []*item
		out.version, items = s.snapshot(t, selects)
		out.sendList(items, streaming)
	}
	for bookmarked := false; ; {
		changed, ok := s.sendEvents(&out)
		if !ok {
			return
		}
		if bookmarked {
			out.sendBookmark(nil)
		}
		w.(http.Flusher).Flush()
		select {
		case <-changed:
			bookmarked = false
		case <-bookmark:
			bookmarked = true
			s.mu.Lock()
			bookmark = s.shelves[t.resource.name].bookmark
			s.mu.Unlock()
		case <-cut:
			return
		case <-ctx.Done():
			return
		}
	}
}

// sendEvents sends the changes since the version of out, and returns a channel that is
// closed after the next one. ok is false if the changes are no longer in the log, because
// the watch began with an old version or because the client is slow.
func (s *Server) sendEvents(out *stream) (changed <-chan struct{}, ok bool) {
	s.mu.Lock()
	shelf := s.shelves[out.target.resource.name]
	changed, version, gone, changes := s.changed, s.version, shelf.gone, shelf.since(out.version)
	if s.noEvents {
		changes = nil
	}
	s.mu.Unlock()
	if out.version < gone {
		out.send(watch.Error, out.format.encode(status(http.StatusGone, metav1.StatusReasonExpired)))
		return nil, false
	}
	for _, c := range changes {
		if kind, it, ok := eventOf(c, out.selects); ok {
			out.send(kind, it.encoded(out.format))
		}
	}
	out.version = version
	return changed, true
}

// stream writes the events of a watch.
type stream struct {
	w       http.ResponseWriter
	format  format
	target  target
	selects func(Object) bool
	version int // of the last event
}

// sendList sends the existing objects, and for a streaming list the bookmark at its end.
func (s *stream) sendList(items []*item, streaming bool) {
	for _, it := range items {
		s.send(watch.Added, it.encoded(s.format))
	}
	if streaming {
		s.sendBookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
}

func (s *stream) send(kind watch.EventType, object []byte) {
	_, _ = s.w.Write(s.format.frame(kind, object))
}

// sendBookmark sends an object that has a version, and no other field but annotations.
func (s *stream) sendBookmark(annotations map[string]string) {
	o := s.target.resource.empty()
	o.SetResourceVersion(strconv.Itoa(s.version))
	o.SetAnnotations(annotations)
	s.send(watch.Bookmark, s.format.encode(o))
}

func status(code int, reason metav1.StatusReason) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: string(reason),
	}
}

func fail(w http.ResponseWriter, r *http.Request, code int, reason metav1.StatusReason) {
	f := formatOf(r)
	w.Header().Set("Content-Type", f.contentType(false))
	w.WriteHeader(code)
	_, _ = w.Write(f.encode(status(code, reason)))
}
