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

// result is a pod and its source.
type result struct {
	pod    policy.Pod
	source Source
}

// mirror is the UID of a mirror pod and the UID of its static pod.
type mirror struct{ uid, static string }

// table holds the pods of the node. It is the store of a cache.Reflector, which writes the
// API's pods; the reader of the manifests writes the static ones. It keeps only the fields
// that the policy engine reads, about 330 bytes a pod with its names and map entries; an
// empty corev1.Pod alone has 1240.
type table struct {
	mu        sync.RWMutex
	synced    chan struct{}                   // closed when the first complete list has arrived
	pods      map[string]policy.Pod           // from the API, by UID
	mirrors   map[types.NamespacedName]mirror // of the pods that are mirror pods
	manifests map[types.NamespacedName]policy.Pod
	large     map[string]bool          // UIDs of pods of the API that are not kept
	waiting   map[string]chan struct{} // one waiter a UID; receives a token when the pod may have arrived

	stops       stops
	annotations annotations
}

func newTable() *table {
	return &table{
		synced:  make(chan struct{}),
		pods:    map[string]policy.Pod{},
		mirrors: map[types.NamespacedName]mirror{},
		large:   map[string]bool{},
		stops:   stops{},
		waiting: map[string]chan struct{}{},
	}
}

// get returns the pod of ref if the table has it.
func (t *table) get(ref Ref) (result, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if pod, ok := t.pods[ref.UID]; ok {
		return result{pod, FromInformer}, true
	}
	if !ref.isStatic() {
		return result{}, false
	}
	name := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	pod, ok := t.manifests[name]
	if ok && ref.isFromFile() && (pod.UID == "" || pod.UID == ref.UID) { // a manifest may set its UID
		pod.UID = ref.UID
		return result{pod, FromManifest}, true
	}
	// The name must match because a user can write the annotation of a mirror pod.
	if m, ok := t.mirrors[name]; ok && m.static == ref.UID && !ref.NoMirror {
		pod := t.pods[m.uid]
		pod.UID = ref.UID
		return result{pod, FromInformer}, true
	}
	return result{}, false
}

// wait returns the pod of ref as soon as the table has it, or false when ctx is done. Only
// one goroutine may wait for a UID at a time.
func (t *table) wait(ctx context.Context, ref Ref) (result, bool) {
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
		if r, ok := t.get(ref); ok {
			return r, true
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return result{}, false
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
	return t.large[uid]
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

func (t *table) addLocked(obj any) error {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("unexpected object %T, want a pod", obj)
	}
	t.annotations.set(pod)
	t.stops.set(pod)
	p := kube.FromPod(pod)
	p.Override = "" // Lookup sets it
	if sizeOf(p) > maxConfig {
		t.removePodLocked(pod)
		t.large[p.UID] = true
		return nil
	}
	delete(t.large, p.UID)
	t.pods[p.UID] = p
	t.wakeLocked(p.UID)
	if static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static != "" {
		t.mirrors[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = mirror{uid: p.UID, static: static}
		t.wakeLocked(static)
	}
	return nil
}

// Add implements [cache.ReflectorStore].
func (t *table) Add(obj any) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.addLocked(obj)
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
	t.removePodLocked(pod)
	t.annotations.remove(string(pod.UID))
	delete(t.stops, string(pod.UID))
	return nil
}

func (t *table) removePodLocked(pod *corev1.Pod) {
	uid, name := string(pod.UID), types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	delete(t.pods, uid)
	delete(t.large, uid)
	if t.mirrors[name].uid == uid {
		delete(t.mirrors, name)
	}
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
	t.pods, t.mirrors, t.large = make(map[string]policy.Pod, len(objs)), map[types.NamespacedName]mirror{}, map[string]bool{}
	t.stops = stops{}
	uids := make(map[string]bool, len(objs))
	for _, obj := range objs {
		if err := t.addLocked(obj); err != nil {
			return err
		}
		uids[string(obj.(*corev1.Pod).UID)] = true
	}
	t.annotations.retain(uids)
	if !t.isSynced() {
		close(t.synced)
	}
	return nil
}

// Resync implements [cache.ReflectorStore]. It is a no-op: the table has no event handlers.
func (t *table) Resync() error { return nil }

// maxAnnotation is the longest value of an annotation that is kept, in bytes.
const maxAnnotation = 64

// annotations holds the annotations of pods that may change while a pod runs.
type annotations struct {
	names   []string // the names of those to keep; none: all are ignored
	changed func(uid string)
	pods    map[string]map[string]string // by UID; a pod without them has no entry
	known   map[string]bool              // UIDs of the pods of the API
}

// FollowAnnotations keeps the annotations with these names of the pods of the API server, and calls
// changed with the UID of a pod when one of them changes. changed must not block. FollowAnnotations
// must be called before Run.
func (p *Pods) FollowAnnotations(names []string, changed func(uid string)) {
	p.table.annotations = annotations{
		names: names, changed: changed, pods: map[string]map[string]string{}, known: map[string]bool{},
	}
}

// Annotations returns the followed annotations of a pod as the API server has them now. ok is
// false if the watch has not delivered the pod, as for a static pod.
func (p *Pods) Annotations(uid string) (values map[string]string, ok bool) {
	p.table.mu.RLock()
	defer p.table.mu.RUnlock()
	return maps.Clone(p.table.annotations.pods[uid]), p.table.annotations.known[uid]
}

// set updates the annotations of a pod.
func (a *annotations) set(pod *corev1.Pod) {
	if len(a.names) == 0 {
		return
	}
	var values map[string]string
	for _, name := range a.names {
		value, ok := pod.Annotations[name]
		if !ok {
			continue
		}
		if values == nil {
			values = map[string]string{}
		}
		values[name] = value[:min(len(value), maxAnnotation)]
	}
	uid := string(pod.UID)
	differ := a.known[uid] && !maps.Equal(a.pods[uid], values)
	a.known[uid] = true
	delete(a.pods, uid)
	if values != nil {
		a.pods[uid] = values
	}
	if differ {
		a.changed(uid)
	}
}

// remove removes a pod.
func (a *annotations) remove(uid string) {
	delete(a.pods, uid)
	delete(a.known, uid)
}

// retain removes the pods that are not in uids.
func (a *annotations) retain(uids map[string]bool) {
	for uid := range a.known {
		if !uids[uid] {
			a.remove(uid)
		}
	}
}

// stopSlack is how long after its grace period a pod still counts as being stopped: for the kubelet's
// report, and for clocks that differ. A pod that cannot be stopped, or has a finalizer, then counts no
// more.
const stopSlack = 30 * time.Second

// stops has the end of the grace period of the deleted pods with running containers, by UID.
type stops map[string]time.Time

func (s stops) set(pod *corev1.Pod) {
	if pod.DeletionTimestamp == nil || !hasRunning(pod) {
		delete(s, string(pod.UID))
		return
	}
	s[string(pod.UID)] = pod.DeletionTimestamp.Time
}

// hasRunning reports whether a container of the pod runs, as far as the kubelet has reported.
func hasRunning(pod *corev1.Pod) bool {
	s := pod.Status
	return slices.ContainsFunc(slices.Concat(s.ContainerStatuses, s.InitContainerStatuses, s.EphemeralContainerStatuses),
		func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}

// Stopping returns the number of pods of the API server whose containers are being stopped because the
// pod is deleted. known is false until the pods have arrived. The API server does not show other stops,
// such as those after a failed liveness probe.
func (p *Pods) Stopping() (pods int, known bool) {
	p.table.mu.RLock()
	defer p.table.mu.RUnlock()
	for _, end := range p.table.stops {
		if time.Since(end) < stopSlack {
			pods++
		}
	}
	return pods, p.table.isSynced()
}
