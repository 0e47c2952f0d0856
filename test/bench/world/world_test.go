// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/world"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestSeed: the seed alone reproduces a failure.
func TestSeed(t *testing.T) {
	texts := make([]string, 2)
	for i := range texts {
		g := world.New(7, 100, []netip.Addr{netip.MustParseAddr("192.0.2.1")})
		applied, deleted := g.Change(50)
		if len(applied) == 0 || len(deleted) == 0 {
			t.Errorf("%d objects have changed and %d are gone, want some of both", len(applied), len(deleted))
		}
		text := must.Get(json.Marshal([]any{g.World, applied, len(deleted), g.Questions(1000)}))(t)
		texts[i] = string(text)
	}
	if texts[0] != texts[1] {
		t.Error("the same seed has made two worlds")
	}
}

// TestIdentity: kind, namespace and name are unique.
func TestIdentity(t *testing.T) {
	large := world.Large(1000, 10000, 100)
	g := world.New(1, 400, nil)
	for _, w := range []*world.World{large, &g.World} {
		seen := map[[3]string]bool{}
		for _, o := range w.Objects() {
			id := identity(o)
			if seen[id] {
				t.Errorf("%v is there twice", id)
			}
			seen[id] = true
		}
	}
	endpoints := 0
	for _, s := range large.Slices {
		endpoints += len(s.Endpoints)
	}
	if len(large.Services) != 1000 || endpoints != 10000 || len(large.Pods) != 100 {
		t.Errorf("%d services, %d endpoints, %d pods", len(large.Services), endpoints, len(large.Pods))
	}
}

func identity(o kubeapi.Object) [3]string {
	return [3]string{reflect.TypeOf(o).String(), o.GetNamespace(), o.GetName()}
}
