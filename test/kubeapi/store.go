// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"net/http"
	"sort"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// maxLog is the number of changes of a resource that are kept. A watch from a version
// before them is answered with 410 Gone.
const maxLog = 50_000

// Server is the API server. Use [New] to create one.
type Server struct {
	mu          sync.Mutex
	version     int // resource version of the last change
	shelves     map[string]*shelf
	requests    map[string]int
	faults      map[string]http.HandlerFunc
	noStreaming bool
	noEvents    bool
	cut         chan struct{} // closed to end the watches
	changed     chan struct{} // closed after a change

	listener *listener // nil: no port is open
	address  string    // of the last listener
}

// shelf holds the objects of a resource.
type shelf struct {
	items    map[string]*item // by namespace/name
	log      []change
	gone     int           // the version of the last change that is not in log
	held     chan struct{} // nil, or closed when requests are served again
	bookmark chan struct{} // closed to send a bookmark to each watch
}

// change is a change of an object: old is nil when it was created, new when it was deleted.
type change struct {
	version  int
	old, new *item
}

// New returns an API server without objects. It has no port before Start.
func New() *Server {
	s := &Server{
		version: 100, requests: map[string]int{}, shelves: map[string]*shelf{}, faults: map[string]http.HandlerFunc{},
		cut: make(chan struct{}), changed: make(chan struct{}),
	}
	for _, r := range resources {
		s.shelves[r.name] = &shelf{items: map[string]*item{}, bookmark: make(chan struct{})}
	}
	return s
}

// Apply creates or updates objects in the order given, and notifies the watches. It keeps
// copies. An object with another UID than the existing one replaces it, as after a
// deletion.
func (s *Server) Apply(objects ...Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		r := resourceOf(o)
		o = o.DeepCopyObject().(Object)
		shelf := s.shelves[r.name]
		key := o.GetNamespace() + "/" + o.GetName()
		if o.GetUID() == "" {
			o.SetUID(types.UID(r.name + "/" + key))
		}
		if old, ok := shelf.items[key]; ok && old.object.GetUID() != o.GetUID() {
			s.deleteLocked(r, key)
		}
		it := s.newItemLocked(r, o)
		s.logLocked(shelf, change{s.version, shelf.items[key], it})
		shelf.items[key] = it
	}
	s.notifyLocked()
}

// Delete deletes the objects with the kinds and names of those given, and notifies the
// watches. It is a no-op for objects that do not exist.
func (s *Server) Delete(objects ...Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		s.deleteLocked(resourceOf(o), o.GetNamespace()+"/"+o.GetName())
	}
	s.notifyLocked()
}

func (s *Server) deleteLocked(r resource, key string) {
	shelf := s.shelves[r.name]
	old, ok := shelf.items[key]
	if !ok {
		return
	}
	delete(shelf.items, key)
	// The event of a deletion carries the version of the deletion.
	last := s.newItemLocked(r, old.object.DeepCopyObject().(Object))
	s.logLocked(shelf, change{s.version, last, nil})
}

func (s *Server) newItemLocked(r resource, o Object) *item {
	s.version++
	o.SetResourceVersion(strconv.Itoa(s.version))
	o.GetObjectKind().SetGroupVersionKind(r.kind)
	return &item{object: o}
}

func (s *Server) logLocked(shelf *shelf, c change) {
	if len(shelf.log) >= maxLog {
		half := len(shelf.log) / 2
		shelf.gone = shelf.log[half-1].version
		shelf.log = append([]change(nil), shelf.log[half:]...)
	}
	shelf.log = append(shelf.log, c)
}

func (s *Server) notifyLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// since returns the changes after version. The caller must not modify the slice.
func (h *shelf) since(version int) []change {
	i := sort.Search(len(h.log), func(i int) bool { return h.log[i].version > version })
	return h.log[i:len(h.log):len(h.log)]
}

// CutWatches ends all watches, as an API server does that restarts. Clients can resume
// from their last version.
func (s *Server) CutWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cut)
	s.cut = make(chan struct{})
}

// Forget ends all watches and empties the log of changes: clients that resume receive
// 410 Gone and have to list again.
func (s *Server) Forget() {
	s.mu.Lock()
	s.version++
	for _, shelf := range s.shelves {
		shelf.log, shelf.gone = nil, s.version
	}
	s.mu.Unlock()
	s.CutWatches()
}

// Bookmark sends a bookmark to the watches of the given resources, or to all watches if
// none is given.
func (s *Server) Bookmark(resources ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(resources) == 0 {
		for name := range s.shelves {
			resources = append(resources, name)
		}
	}
	for _, name := range resources {
		shelf := s.shelves[name]
		close(shelf.bookmark)
		shelf.bookmark = make(chan struct{})
	}
}

// Hold delays the requests of a resource until release is called. Watches that have begun
// are not affected.
func (s *Server) Hold(resource string) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make(chan struct{})
	s.shelves[resource].held = held
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.shelves[resource].held = nil
		close(held)
	}
}

// Requests returns the number of requests by verb and resource, such as "watch services".
// A streaming list is a watch.
func (s *Server) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]int, len(s.requests))
	for k, n := range s.requests {
		all[k] = n
	}
	return all
}

// SetFault makes f answer the requests with one of the given verbs (get, list or watch),
// or all requests if none is given. A nil f ends the fault. Watches that have begun are not
// affected: see CutWatches.
func (s *Server) SetFault(f http.HandlerFunc, verbs ...string) {
	if len(verbs) == 0 {
		verbs = []string{"get", "list", "watch"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, verb := range verbs {
		s.faults[verb] = f
	}
}

// DisableStreamingLists makes the server reject streaming lists, as API servers before
// Kubernetes 1.34 do.
func (s *Server) DisableStreamingLists() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noStreaming = true
}

// StopEvents makes the watches send no more events, as an API server does whose watch
// cache lags behind its storage.
func (s *Server) StopEvents() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noEvents = true
}

// eventOf returns the event that c is for a watch with a selector; ok is false if there is
// none.
func eventOf(c change, selects func(Object) bool) (kind watch.EventType, it *item, ok bool) {
	before := c.old != nil && selects(c.old.object)
	after := c.new != nil && selects(c.new.object)
	switch {
	case before && after:
		return watch.Modified, c.new, true
	case after:
		return watch.Added, c.new, true
	case before && c.new != nil:
		return watch.Deleted, c.new, true
	case before:
		return watch.Deleted, c.old, true
	default:
		return "", nil, false
	}
}
