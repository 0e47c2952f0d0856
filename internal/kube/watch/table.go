// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// answer is a pod, and who knew it.
type answer struct {
	pod    policy.Pod
	source Source
}

// name is what a pod is called. At any time the API has one pod of a name.
type name struct{ namespace, name string }

// mirror is a mirror pod's own UID and the UID of the static pod that it shows.
type mirror struct{ uid, of string }

// table holds the pods that are known. It is the store of a cache.Reflector, which
// writes the API's pods; the reader of the manifests writes the static ones. It
// keeps what the engine wants of a pod, about 330 bytes with its names and its place
// here; even an emptied corev1.Pod has 1240.
type table struct {
	mu        sync.RWMutex
	synced    bool                  // there has been a complete list
	pods      map[string]policy.Pod // the API's, by UID
	mirrors   map[name]mirror       // those of pods that are mirrors
	manifests map[name]policy.Pod
	waiting   map[string]chan struct{} // one waiter a UID; holds a token when there is news
}

func newTable() *table {
	return &table{
		pods:    map[string]policy.Pod{},
		mirrors: map[name]mirror{},
		waiting: map[string]chan struct{}{},
	}
}

// find returns the pod of ref if it is here.
func (t *table) find(ref Ref) (answer, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if pod, ok := t.pods[ref.UID]; ok {
		return answer{pod, Informer}, true
	}
	if !ref.static() {
		return answer{}, false
	}
	called := name{ref.Namespace, ref.Name}
	// The name has to agree because a user may write the annotation of a mirror pod.
	if m, ok := t.mirrors[called]; ok && m.of == ref.UID {
		pod := t.pods[m.uid]
		pod.UID = ref.UID
		return answer{pod, Informer}, true
	}
	pod, ok := t.manifests[called]
	if !ok || !ref.fromFile() || pod.UID != "" && pod.UID != ref.UID { // a manifest may state its UID
		return answer{}, false
	}
	pod.UID = ref.UID
	return answer{pod, Manifest}, true
}

// await returns the pod of ref as soon as it is here, or false when ctx ends. There
// must be one await a UID at a time.
func (t *table) await(ctx context.Context, ref Ref) (answer, bool) {
	news := make(chan struct{}, 1)
	t.mu.Lock()
	t.waiting[ref.UID] = news
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		delete(t.waiting, ref.UID)
		t.mu.Unlock()
	}()
	for {
		if a, ok := t.find(ref); ok {
			return a, true
		}
		select {
		case <-news:
		case <-ctx.Done():
			return answer{}, false
		}
	}
}

func (t *table) wakeLocked(uid string) {
	if news, ok := t.waiting[uid]; ok {
		select {
		case news <- struct{}{}:
		default:
		}
	}
}

func (t *table) wakeAllLocked() {
	for uid := range t.waiting {
		t.wakeLocked(uid)
	}
}

func (t *table) isSynced() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.synced
}

// setManifests replaces the static pods.
func (t *table) setManifests(pods map[name]policy.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.manifests = pods
	t.wakeAllLocked()
}

func (t *table) addLocked(obj any) error {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("the API sent %T for a pod", obj)
	}
	p := kube.FromPod(pod)
	t.pods[p.UID] = p
	t.wakeLocked(p.UID)
	if of := pod.Annotations[corev1.MirrorPodAnnotationKey]; of != "" {
		t.mirrors[name{p.Namespace, p.Name}] = mirror{uid: p.UID, of: of}
		t.wakeLocked(of)
	}
	return nil
}

// Add takes a pod in.
func (t *table) Add(obj any) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.addLocked(obj)
}

// Update takes a pod in that is known already: its annotations may have changed.
func (t *table) Update(obj any) error { return t.Add(obj) }

// Delete forgets a pod.
func (t *table) Delete(obj any) error {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("the API sent %T for a pod", obj)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	uid, called := string(pod.UID), name{pod.Namespace, pod.Name}
	delete(t.pods, uid)
	if t.mirrors[called].uid == uid {
		delete(t.mirrors, called)
	}
	return nil
}

// Replace forgets all pods of the API and takes in those of a complete list.
func (t *table) Replace(objs []any, _ string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pods, t.mirrors = make(map[string]policy.Pod, len(objs)), map[name]mirror{}
	for _, obj := range objs {
		if err := t.addLocked(obj); err != nil {
			return err
		}
	}
	t.synced = true
	return nil
}

// Resync does nothing: nobody listens to us.
func (t *table) Resync() error { return nil }
