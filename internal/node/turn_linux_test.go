// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// TestApplier_LargePods creates the containers of two pods with many options. Their events return
// before the pods are decided, so that those of other pods are handled. The pods are decided one
// after the other.
func TestApplier_LargePods(t *testing.T) {
	a := newApplierTest(t)
	a.settings.Hook.Mode = cri.Force
	options := slices.Repeat([]policy.Option{{Name: "ndots", Value: "3"}}, 10_000)
	a.settings.Hook.Lookup = func(_ context.Context, s cri.Sandbox) (policy.Pod, error) {
		return policy.Pod{Namespace: s.Namespace, Name: s.Name, UID: s.UID, Policy: policy.ClusterFirst,
			Config: &policy.DNSConfig{Options: options}}, nil
	}
	var deciding, overlaps atomic.Int32
	proceed := make(chan struct{})
	a.settings.Hook.HostFiles = func() cri.HostFiles {
		defer deciding.Add(-1)
		if deciding.Add(1) > 1 {
			overlaps.Add(1)
			return cri.HostFiles{}
		}
		<-proceed
		return cri.HostFiles{}
	}
	first, second := a.sandbox, a.sandbox
	second.ID, second.Name, second.UID = "5e20", "api", "u2"
	paths := map[string]string{}
	for _, s := range []podfile.Sandbox{first, second} {
		a.sandbox = s
		a.write(kubeletText)
		a.start()
		paths[s.ID] = a.path()
	}
	create := func(s podfile.Sandbox) {
		a.Handle(a.ctx, podfile.Event{Kind: podfile.Creating, Sandbox: s, Path: paths[s.ID], First: true})
	}
	handled := make(chan struct{})
	go func() {
		create(first)
		create(second)
		create(first) // another container
		close(handled)
	}()
	select {
	case <-handled:
	case <-time.After(time.Minute):
		t.Error("an event waits until the pod is decided")
	}
	close(proceed)
	<-handled
	a.Wait()
	if n := overlaps.Load(); n > 0 {
		t.Errorf("%d decisions began during another one", n)
	}
	for _, path := range paths {
		if text, err := os.ReadFile(path); err != nil || podfile.OriginOf(text) != podfile.Written {
			t.Errorf("%v, the file was not written:\n%s", err, text)
		}
	}
}
