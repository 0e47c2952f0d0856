// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor/gather"
	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnsfaults"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestDoctor_Faults seeds each fault into a real API server: it accepts the objects, and what doctor reads of them has
// the finding of the fault first, and no other. Without a fault there is none.
func TestDoctor_Faults(t *testing.T) {
	api := apiserver.Start(t, withoutAccounts)
	c := faultCluster{t: t, config: api.Config(), client: dynamic.NewForConfigOrDie(api.Config())}
	base, _, err := dnsfaults.Healthy()
	if err != nil {
		t.Fatal(err)
	}
	faults := must.Get(dnsfaults.Load())(t)
	c.change(dnsfaults.Objects{}, base)
	if found := c.doctor(); len(found) > 0 {
		t.Fatalf("the healthy cluster: %q", found)
	}
	right := 0
	for _, f := range faults {
		seeded := must.Get(f.Apply(base))(t)
		c.change(base, seeded)
		if found := c.doctor(); slices.Equal(found, f.Finds) {
			right++
		} else {
			t.Errorf("%s: found %q, want %q", f.Name, found, f.Finds)
		}
		c.change(seeded, base)
	}
	t.Logf("%d of %d faults have the right finding first", right, len(faults))
	if found := c.doctor(); len(found) > 0 {
		t.Errorf("without faults: %q", found)
	}
}

// faultCluster is an API server with the objects of a cluster.
type faultCluster struct {
	t      *testing.T
	config *rest.Config
	client dynamic.Interface
}

// doctor returns the codes of the findings in the objects, in the order in which they are reported.
func (c faultCluster) doctor() (codes []string) {
	c.t.Helper()
	s, err := gather.Snapshot(c.t.Context(), gather.Config{API: c.config, MaxObjects: gather.MaxObjects})
	if err != nil || len(s.Unread) > 0 {
		c.t.Fatalf("%v, %v", s, err)
	}
	for _, f := range doctor.Run(c.t.Context(), s).Findings {
		if !slices.Contains(codes, f.Code) {
			codes = append(codes, f.Code)
		}
	}
	return codes
}

// change makes the objects of the cluster those of now. Webhooks are the first that go and the last that come: they may
// keep pods from being created.
func (c faultCluster) change(before, now dnsfaults.Objects) {
	c.t.Helper()
	isLast := func(key string) int { return strings.Count(key, "WebhookConfiguration") }
	order := func(objects dnsfaults.Objects, sign int) (keys []string) {
		for key := range objects {
			if !reflect.DeepEqual(before[key], now[key]) {
				keys = append(keys, key)
			}
		}
		slices.SortFunc(keys, func(a, b string) int {
			return 4*sign*(isLast(a)-isLast(b)) + 2*(strings.Count(b, "Namespace ")-strings.Count(a, "Namespace ")) + strings.Compare(a, b)
		})
		return keys
	}
	for _, key := range order(before, -1) {
		resource, o := c.resource(before[key])
		if err := resource.Delete(c.t.Context(), o.GetName(), metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
			c.t.Errorf("%s: %v", key, err)
		}
	}
	for _, key := range order(now, 1) {
		resource, o := c.resource(now[key])
		_, err := resource.Create(c.t.Context(), o, metav1.CreateOptions{})
		if status := now[key]["status"]; err == nil && status != nil {
			var text []byte
			if text, err = json.Marshal(map[string]any{"status": status}); err == nil {
				_, err = resource.Patch(c.t.Context(), o.GetName(), types.MergePatchType, text, metav1.PatchOptions{}, "status")
			}
		}
		if err != nil {
			c.t.Errorf("%s: %v", key, err)
		}
	}
}

// resource returns an object, and the objects of its kind and namespace.
func (c faultCluster) resource(object dnsfaults.Object) (dynamic.ResourceInterface, *unstructured.Unstructured) {
	o := &unstructured.Unstructured{Object: object}
	resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	return c.client.Resource(resource).Namespace(o.GetNamespace()), o
}
