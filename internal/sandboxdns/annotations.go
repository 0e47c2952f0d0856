// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxdns

import (
	"maps"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// podInterval is the time between two rewrites of a file that changes of the pod's annotations
// cause.
const podInterval = 10 * time.Second

// FollowedAnnotations returns the annotations whose changes a running pod follows.
func FollowedAnnotations() []string {
	return []string{policy.OverrideAnnotation, RefreshAnnotation, cri.SkipAnnotation}
}

// PodChanged decides the pod with this UID again, after a change of its annotations.
func (a *Applier) PodChanged(uid string) {
	for _, s := range a.list() {
		if s.UID == uid {
			a.queue.push(s.ID, causePod)
		}
	}
}

// delay reports whether the file of s was rewritten less than podInterval ago. Then s is queued
// again after it.
func (a *Applier) delay(s *sandbox) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := podInterval - time.Since(s.refreshed)
	if s.refreshed.IsZero() || wait <= 0 {
		return false
	}
	if !s.delayed {
		s.delayed = true
		time.AfterFunc(wait, func() {
			s.mu.Lock()
			s.delayed = false
			s.mu.Unlock()
			a.queue.push(s.ID, causePod)
		})
	}
	return true
}

// updateAnnotations replaces the annotations of s by those that the API server has now, if the
// settings or the pod want that its file follows changes. s.mu must be held.
func (s *sandbox) updateAnnotations(settings *Settings) {
	if settings.Annotations == nil {
		return
	}
	values, ok := settings.Annotations(s.UID)
	if !ok || (settings.Refresh == ScopeOff || settings.Refresh == "") && values[RefreshAnnotation] != "always" {
		return
	}
	s.current = maps.Clone(s.Annotations)
	if s.current == nil {
		s.current = map[string]string{}
	}
	for _, name := range FollowedAnnotations() {
		delete(s.current, name)
	}
	maps.Copy(s.current, values)
	s.pod.Override = policy.Policy(values[policy.OverrideAnnotation])
}

// annotation returns the value of an annotation as it is now. s.mu must be held.
func (s *sandbox) annotation(name string) string {
	if s.current != nil {
		return s.current[name]
	}
	return s.Annotations[name]
}
