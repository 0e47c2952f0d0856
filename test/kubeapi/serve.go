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
	s.mu.Lock()
	s.requests[verb+" "+t.resource.name]++
	fault := s.fault
	s.mu.Unlock()
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

// selector returns what tells whether an object is asked for.
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

// list answers with all objects at once, as a real server does from its cache: a limit is
// not kept.
func (s *Server) list(w http.ResponseWriter, r *http.Request, t target, selects func(Object) bool) {
	version, items := s.now(t, selects)
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

// now returns the version of the store and what it holds.
func (s *Server) now(t target, selects func(Object) bool) (version int, items []*item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, it := range s.shelves[t.resource.name].items {
		if selects(it.object) {
			items = append(items, it)
		}
	}
	return s.version, items
}

// watch sends changes until the client or CutWatches ends it, or its time is over.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, t target, selects func(Object) bool) {
	query := r.URL.Query()
	ctx := r.Context()
	if seconds, _ := strconv.Atoi(query.Get("timeoutSeconds")); seconds > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
		defer cancel()
	}
	out := stream{w, formatOf(r)}
	s.mu.Lock()
	cut, mark := s.cut, s.mark
	s.mu.Unlock()
	from, _ := strconv.Atoi(query.Get("resourceVersion"))
	initial := query.Get("sendInitialEvents") == "true"
	w.Header().Set("Content-Type", out.format.contentType(true))
	w.WriteHeader(http.StatusOK)
	if initial || from == 0 {
		var items []*item
		from, items = s.now(t, selects)
		for _, it := range items {
			out.send(watch.Added, it.encoded(out.format))
		}
		if initial {
			out.bookmark(t, from, map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		}
	}
	for marked := false; ; {
		s.mu.Lock()
		shelf := s.shelves[t.resource.name]
		news, version, gone, changes := s.news, s.version, shelf.gone, shelf.since(from)
		s.mu.Unlock()
		if from < gone { // from the start, or because the client is slow
			out.send(watch.Error, out.format.encode(status(http.StatusGone, metav1.StatusReasonExpired)))
			return
		}
		for _, c := range changes {
			if kind, it, ok := kindOf(c, selects); ok {
				out.send(kind, it.encoded(out.format))
			}
		}
		from = version
		if marked {
			out.bookmark(t, from, nil)
		}
		w.(http.Flusher).Flush()
		select {
		case <-news:
			marked = false
		case <-mark:
			marked = true
			s.mu.Lock()
			mark = s.mark
			s.mu.Unlock()
		case <-cut:
			return
		case <-ctx.Done():
			return
		}
	}
}

// stream writes the events of a watch.
type stream struct {
	w      http.ResponseWriter
	format format
}

func (s stream) send(kind watch.EventType, object []byte) {
	_, _ = s.w.Write(s.format.frame(kind, object))
}

// bookmark sends an object that has a version and nothing else.
func (s stream) bookmark(t target, version int, annotations map[string]string) {
	o := t.resource.empty()
	o.SetResourceVersion(strconv.Itoa(version))
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
