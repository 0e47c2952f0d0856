// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

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
