// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor/gather"
	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnsfaults"
)

// TestDoctor_Faults seeds each fault into a real API server: it accepts the objects, and what doctor reads of them has
// the finding of the fault first, and no other. Without a fault there is none.
func TestDoctor_Faults(t *testing.T) {
	api := apiserver.Start(t, withoutAccounts)
	config, err := api.Config()
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	c := faultCluster{t: t, host: config.Host, client: client, config: config}
	base, _, err := dnsfaults.Healthy()
	if err != nil {
		t.Fatal(err)
	}
	faults, err := dnsfaults.Load()
	if err != nil {
		t.Fatal(err)
	}
	c.change(dnsfaults.Objects{}, base)
	if found := c.doctor(); len(found) > 0 {
		t.Fatalf("the healthy cluster: %q", found)
	}
	right := 0
	for _, f := range faults {
		seeded, err := f.Apply(base)
		if err != nil {
			t.Fatal(err)
		}
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
	host   string
	client *http.Client
	config *rest.Config
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
		c.send(http.MethodDelete, before[key], collection(before[key])+"/"+name(before[key]), `{"gracePeriodSeconds":0}`)
	}
	for _, key := range order(now, 1) {
		text, err := json.Marshal(now[key])
		if err != nil {
			c.t.Fatal(err)
		}
		c.send(http.MethodPost, now[key], collection(now[key]), string(text))
		if status := now[key]["status"]; status != nil {
			text, err := json.Marshal(map[string]any{"status": status})
			if err != nil {
				c.t.Fatal(err)
			}
			c.send(http.MethodPatch, now[key], collection(now[key])+"/"+name(now[key])+"/status", string(text))
		}
	}
}

func name(o dnsfaults.Object) string { return fmt.Sprint(o["metadata"].(map[string]any)["name"]) }

// collection returns the path of the objects of a kind.
func collection(o dnsfaults.Object) string {
	path := "/apis/" + fmt.Sprint(o["apiVersion"])
	if o["apiVersion"] == "v1" {
		path = "/api/v1"
	}
	if namespace, ok := o["metadata"].(map[string]any)["namespace"]; ok {
		path += fmt.Sprintf("/namespaces/%v", namespace)
	}
	resource := strings.ToLower(fmt.Sprint(o["kind"])) + "s"
	if before, ok := strings.CutSuffix(resource, "ys"); ok {
		resource = before + "ies"
	}
	return path + "/" + resource
}

func (c faultCluster) send(method string, o dnsfaults.Object, path, body string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.host+path, bytes.NewReader([]byte(body)))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := c.client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		c.t.Errorf("%s %s of %s: %v", method, path, o.Key(), errors.Join(err, errors.New(string(text))))
	}
}
