// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// table holds the pods of the node. It is the store of a cache.Reflector, which writes the
// API's pods; the reader of the manifests writes the static ones. It keeps only the fields
// that are read, about 420 bytes a pod with its names and map entries; an empty corev1.Pod
// alone has 1240.
type table struct {
	mu        sync.RWMutex
	synced    chan struct{}                   // closed when the first complete list has arrived
	pods      map[string]*record              // from the API, by UID
	mirrors   map[types.NamespacedName]string // UIDs of the pods that are mirror pods
	manifests map[types.NamespacedName]policy.Pod
	waiting   map[string]chan struct{} // one waiter a UID; receives a token when the pod may have arrived

	followed []string         // the names of the annotations to keep
	changed  func(uid string) // called when one of them changes; nil: not called
}

// record is what the table has of a pod of the API.
type record struct {
	pod         policy.Pod        // only its UID if it is large
	large       bool              // too large to keep
	static      string            // of a mirror pod: the UID of its static pod
	annotations map[string]string // the followed ones; nil: none
	stopping    time.Time         // the end of the grace period; zero: the pod is not deleted, or has no running containers
}

func newTable() *table {
	return &table{
		synced:  make(chan struct{}),
		pods:    map[string]*record{},
		mirrors: map[types.NamespacedName]string{},
		waiting: map[string]chan struct{}{},
	}
}

// get returns the pod of ref if the table has it.
func (t *table) get(ref Ref) (policy.Pod, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if r := t.pods[ref.UID]; r != nil && !r.large {
		return r.pod, true
	}
	if !ref.isStatic() {
		return policy.Pod{}, false
	}
	name := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	pod, ok := t.manifests[name]
	if ok && ref.isFromFile() && (pod.UID == "" || pod.UID == ref.UID) { // a manifest may set its UID
		pod.UID = ref.UID
		return pod, true
	}
	// The name must match because a user can write the annotation of a mirror pod.
	if r := t.pods[t.mirrors[name]]; r != nil && !r.large && r.static == ref.UID && !ref.NoMirror {
		pod := r.pod
		pod.UID = ref.UID
		return pod, true
	}
	return policy.Pod{}, false
}

// wait returns the pod of ref as soon as the table has it, or false when ctx is done. Only
// one goroutine may wait for a UID at a time.
func (t *table) wait(ctx context.Context, ref Ref) (policy.Pod, bool) {
	arrived := make(chan struct{}, 1)
	t.mu.Lock()
	t.waiting[ref.UID] = arrived
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		delete(t.waiting, ref.UID)
		t.mu.Unlock()
	}()
	for {
		if pod, ok := t.get(ref); ok {
			return pod, true
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return policy.Pod{}, false
		}
	}
}

func (t *table) wakeLocked(uid string) {
	if arrived, ok := t.waiting[uid]; ok {
		select {
		case arrived <- struct{}{}:
		default:
		}
	}
}

// isLarge reports whether the API has a pod with this UID that is too large to keep.
func (t *table) isLarge(uid string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	r := t.pods[uid]
	return r != nil && r.large
}

func (t *table) isSynced() bool {
	select {
	case <-t.synced:
		return true
	default:
		return false
	}
}

// setManifests replaces the static pods.
func (t *table) setManifests(pods map[types.NamespacedName]policy.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.manifests = pods
	for uid := range t.waiting {
		t.wakeLocked(uid)
	}
}

// putLocked adds or updates a pod; before has the pods before the change.
func (t *table) putLocked(obj any, before map[string]*record) error {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("unexpected object %T, want a pod", obj)
	}
	uid, name := string(pod.UID), nameOf(pod)
	r := t.newRecord(pod)
	old := before[uid]
	t.pods[uid] = r
	if r.static != "" {
		t.mirrors[name] = uid
	}
	t.wakeLocked(uid)
	t.wakeLocked(r.static)
	if old != nil && t.changed != nil && !maps.Equal(old.annotations, r.annotations) {
		t.changed(uid)
	}
	return nil
}

// newRecord returns the record of a pod.
func (t *table) newRecord(pod *corev1.Pod) *record {
	r := &record{pod: kube.FromPod(pod), static: pod.Annotations[corev1.MirrorPodAnnotationKey]}
	r.pod.Override = "" // Lookup sets it
	if r.large = sizeOf(r.pod) > maxConfig; r.large {
		r.pod = policy.Pod{UID: r.pod.UID}
	}
	for _, name := range t.followed {
		if value, ok := pod.Annotations[name]; ok {
			if r.annotations == nil {
				r.annotations = map[string]string{}
			}
			r.annotations[name] = value[:min(len(value), maxAnnotation)]
		}
	}
	if pod.DeletionTimestamp != nil && hasRunning(pod) {
		r.stopping = pod.DeletionTimestamp.Time
	}
	return r
}

// hasRunning reports whether a container of the pod runs, as far as the kubelet has reported.
func hasRunning(pod *corev1.Pod) bool {
	s := pod.Status
	return slices.ContainsFunc(slices.Concat(s.ContainerStatuses, s.InitContainerStatuses, s.EphemeralContainerStatuses),
		func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}

// Add implements [cache.ReflectorStore].
func (t *table) Add(obj any) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.putLocked(obj, t.pods)
}

// Update implements [cache.ReflectorStore]. The annotations of a pod can change.
func (t *table) Update(obj any) error { return t.Add(obj) }

// Delete implements [cache.ReflectorStore].
func (t *table) Delete(obj any) error {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("unexpected object %T, want a pod", obj)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	uid, name := string(pod.UID), nameOf(pod)
	delete(t.pods, uid)
	if t.mirrors[name] == uid {
		delete(t.mirrors, name)
	}
	return nil
}

// maxConfig is the size in bytes of the largest dnsConfig and labels that are kept. With the API
// server's limits, all but the options have 2.2 KiB. A pod with more is requested from the API server
// when it starts: 100 pods with the options that fit into an object would take a gigabyte.
const maxConfig = 16 << 10

// sizeOf returns the memory of the dnsConfig and the labels of a pod in bytes.
func sizeOf(p policy.Pod) (size int) {
	const header = 16 // of a string
	for name, value := range p.Labels {
		size += 2*header + len(name) + len(value)
	}
	c := p.Config
	if c == nil {
		return size
	}
	for _, list := range [...][]string{c.Nameservers, c.Searches} {
		for _, s := range list {
			size += header + len(s)
		}
	}
	for _, o := range c.Options {
		size += 2*header + len(o.Name) + len(o.Value)
	}
	return size
}

// Replace implements [cache.ReflectorStore] with the pods of a complete list.
func (t *table) Replace(objs []any, _ string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.pods
	t.pods, t.mirrors = make(map[string]*record, len(objs)), map[types.NamespacedName]string{}
	for _, obj := range objs {
		if err := t.putLocked(obj, before); err != nil {
			return err
		}
	}
	if !t.isSynced() {
		close(t.synced)
	}
	return nil
}

// Resync implements [cache.ReflectorStore]. It is a no-op: the table has no event handlers.
func (t *table) Resync() error { return nil }

// maxAnnotation is the longest value of an annotation that is kept, in bytes.
const maxAnnotation = 64

// FollowAnnotations keeps the annotations with these names of the pods of the API server, and calls
// changed with the UID of a pod when one of them changes. changed must not block. FollowAnnotations
// must be called before Run.
func (p *Pods) FollowAnnotations(names []string, changed func(uid string)) {
	p.table.followed, p.table.changed = names, changed
}

// Annotations returns the followed annotations of a pod as the API server has them now. ok is
// false if the watch has not delivered the pod, as for a static pod.
func (p *Pods) Annotations(uid string) (values map[string]string, ok bool) {
	p.table.mu.RLock()
	defer p.table.mu.RUnlock()
	r := p.table.pods[uid]
	if r == nil {
		return nil, false
	}
	return maps.Clone(r.annotations), true
}

// stopSlack is how long after its grace period a pod still counts as being stopped: for the kubelet's
// report, and for clocks that differ. A pod that cannot be stopped, or has a finalizer, then counts no
// more.
const stopSlack = 30 * time.Second

// Stopping returns the number of pods of the API server whose containers are being stopped because the
// pod is deleted. known is false until the pods have arrived. The API server does not show other stops,
// such as those after a failed liveness probe.
func (p *Pods) Stopping() (pods int, known bool) {
	p.table.mu.RLock()
	defer p.table.mu.RUnlock()
	for _, r := range p.table.pods {
		if !r.stopping.IsZero() && time.Since(r.stopping) < stopSlack {
			pods++
		}
	}
	return pods, p.table.isSynced()
}
