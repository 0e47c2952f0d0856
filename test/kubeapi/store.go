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

// maxLog is how many changes of a resource are remembered. A watch from before them is
// 410 Gone.
const maxLog = 50_000

// Server is the API. The zero Server is not one: see New.
type Server struct {
	mu       sync.Mutex
	version  int // resource version of the last change
	shelves  map[string]*shelf
	requests map[string]int
	fault    http.HandlerFunc
	cut      chan struct{} // closed to end the watches
	mark     chan struct{} // closed to send a bookmark to each of them
	news     chan struct{} // closed after a change

	listener *listener // nil: nobody can connect
	address  string    // of the last listener
}

// shelf holds the objects of a resource.
type shelf struct {
	items map[string]*item // by namespace/name
	log   []change
	gone  int // the version of the last change that is not in log
}

// change is what happened to an object: old is nil when it is new, now when it is gone.
type change struct {
	version  int
	old, now *item
}

// New returns an empty API that nobody can connect to until Start.
func New() *Server {
	s := &Server{
		version: 100, requests: map[string]int{}, shelves: map[string]*shelf{},
		cut: make(chan struct{}), mark: make(chan struct{}), news: make(chan struct{}),
	}
	for _, r := range resources {
		s.shelves[r.name] = &shelf{items: map[string]*item{}}
	}
	return s
}

// Apply creates objects, or changes those that exist, in the order given, and tells the
// watches. It keeps copies.
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
		it := s.newItemLocked(r, o)
		s.logLocked(shelf, change{s.version, shelf.items[key], it})
		shelf.items[key] = it
	}
	s.tellLocked()
}

// Delete removes objects, found by their kinds and names, and tells the watches. Those
// that do not exist stay so.
func (s *Server) Delete(objects ...Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		r := resourceOf(o)
		shelf := s.shelves[r.name]
		key := o.GetNamespace() + "/" + o.GetName()
		old, ok := shelf.items[key]
		if !ok {
			continue
		}
		delete(shelf.items, key)
		// What a watch is sent has the version of the deletion.
		last := s.newItemLocked(r, old.object.DeepCopyObject().(Object))
		s.logLocked(shelf, change{s.version, last, nil})
	}
	s.tellLocked()
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

func (s *Server) tellLocked() {
	close(s.news)
	s.news = make(chan struct{})
}

// since returns the changes after version. The slice is the caller's to read.
func (h *shelf) since(version int) []change {
	i := sort.Search(len(h.log), func(i int) bool { return h.log[i].version > version })
	return h.log[i:len(h.log):len(h.log)]
}

// CutWatches ends all watches, as an API server does that restarts. Clients go on where
// they were.
func (s *Server) CutWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cut)
	s.cut = make(chan struct{})
}

// Forget ends all watches and forgets what has changed: who wants to go on is told
// 410 Gone and has to list again.
func (s *Server) Forget() {
	s.mu.Lock()
	s.version++
	for _, shelf := range s.shelves {
		shelf.log, shelf.gone = nil, s.version
	}
	s.mu.Unlock()
	s.CutWatches()
}

// Bookmark tells all watches that asked for bookmarks how far they are.
func (s *Server) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.mark)
	s.mark = make(chan struct{})
}

// Requests returns how many requests there were, by verb and resource: "watch services".
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

// SetFault makes f answer every request from now on; nil ends that. Watches that have
// begun are not touched: see CutWatches.
func (s *Server) SetFault(f http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// kindOf returns what a watch that selects objects is told of c; ok is false when that
// is nothing.
func kindOf(c change, selects func(Object) bool) (watch.EventType, *item, bool) {
	before := c.old != nil && selects(c.old.object)
	after := c.now != nil && selects(c.now.object)
	switch {
	case before && after:
		return watch.Modified, c.now, true
	case after:
		return watch.Added, c.now, true
	case before && c.now != nil:
		return watch.Deleted, c.now, true
	case before:
		return watch.Deleted, c.old, true
	default:
		return "", nil, false
	}
}
