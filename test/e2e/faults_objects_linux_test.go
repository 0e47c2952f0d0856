// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnsfaults"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
)

// objects are those of the API.
type objects struct {
	client *http.Client
	host   string
}

func newObjects(t *testing.T, api *apiserver.Cluster) *objects {
	t.Helper()
	config, err := api.Config()
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return &objects{client, config.Host}
}

// try sends a request and returns the status and the object of its reply.
func (o *objects) try(t *testing.T, method, path, contentType string, body dnsfaults.Object) (status int, reply dnsfaults.Object) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, o.host+path, bytes.NewReader(encode(t, body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	response, err := o.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		t.Fatalf("%s %s: %v: %s", method, path, err, text)
	}
	return response.StatusCode, reply
}

func (o *objects) request(t *testing.T, method, path string, body dnsfaults.Object) dnsfaults.Object {
	t.Helper()
	contentType := "application/json"
	if method == http.MethodPatch {
		contentType = "application/merge-patch+json"
	}
	status, reply := o.try(t, method, path, contentType, body)
	if status >= http.StatusBadRequest {
		t.Fatalf("%s %s: %d %v", method, path, status, reply["message"])
	}
	return reply
}

func (o *objects) create(t *testing.T, object dnsfaults.Object) {
	t.Helper()
	o.request(t, http.MethodPost, object.Collection(), runnable(object))
}

// remove deletes objects and returns when they are gone. The kubelet ends the containers of pods later.
func (o *objects) remove(t *testing.T, list ...dnsfaults.Object) {
	t.Helper()
	for _, object := range list {
		o.request(t, http.MethodDelete, object.Path(),
			dnsfaults.Object{"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
	}
	for _, object := range list {
		await(t, "the deletion of "+object.Key(), func() error {
			if status, _ := o.try(t, http.MethodGet, object.Path(), "", nil); status != http.StatusNotFound {
				return fmt.Errorf("status %d", status)
			}
			return nil
		})
	}
}

// restore creates an object that was deleted. What helm has applied belongs to helm again, and not to
// this test, with which the next upgrade would be in conflict.
func (o *objects) restore(t *testing.T, before dnsfaults.Object) {
	t.Helper()
	for _, entry := range before["metadata"].(map[string]any)["managedFields"].([]any) {
		if fields := entry.(map[string]any); fields["operation"] == "Apply" {
			path := before.Path() + "?force=true&fieldManager=" + url.QueryEscape(fmt.Sprint(fields["manager"]))
			status, reply := o.try(t, http.MethodPatch, path, "application/apply-patch+yaml", withoutState(before))
			if status >= http.StatusBadRequest {
				t.Fatalf("%s: %d %v", path, status, reply["message"])
			}
			return
		}
	}
	o.request(t, http.MethodPost, before.Collection(), withoutState(before))
}

// apply changes objects as a fault does, and returns what takes that back. It finds the kinds of
// keys in known. What a controller has made has another name: it is left to the controller.
func (o *objects) apply(t *testing.T, f dnsfaults.Fault, known dnsfaults.Objects) (takeBack func()) {
	t.Helper()
	var undo []func()
	for _, key := range slices.Sorted(maps.Keys(f.Merge)) {
		if status, before := o.try(t, http.MethodGet, known[key].Path(), "", nil); status != http.StatusNotFound {
			undo = append(undo, o.change(t, before, f.Merge[key]))
		}
	}
	for _, key := range f.Delete {
		status, before := o.try(t, http.MethodGet, known[key].Path(), "", nil)
		if status == http.StatusNotFound {
			continue
		}
		o.remove(t, before)
		undo = append(undo, func() { o.restore(t, before) })
	}
	for _, object := range f.Create {
		o.create(t, object)
		undo = append(undo, func() { o.remove(t, object) })
	}
	return func() {
		for _, step := range slices.Backward(undo) {
			step()
		}
	}
}

// change merges a patch into an object, and returns what restores it.
func (o *objects) change(t *testing.T, before, patch dnsfaults.Object) (restore func()) {
	t.Helper()
	status, reply := o.try(t, http.MethodPatch, before.Path(), "application/merge-patch+json", patch)
	switch {
	case status == http.StatusUnprocessableEntity:
		o.remove(t, before) // some fields cannot be changed
		o.request(t, http.MethodPost, before.Collection(), withoutState(dnsfaults.Merge(before, patch)))
		return func() {
			o.remove(t, before)
			o.restore(t, before)
		}
	case status >= http.StatusBadRequest:
		t.Fatalf("%s: %d %v", before.Path(), status, reply["message"])
	}
	return func() { o.request(t, http.MethodPatch, before.Path(), dnsfaults.Undo(patch, before)) }
}

// withoutState returns an object without what the API server sets.
func withoutState(o dnsfaults.Object) dnsfaults.Object {
	return dnsfaults.Merge(o, dnsfaults.Object{"status": nil, "metadata": map[string]any{
		"uid": nil, "resourceVersion": nil, "creationTimestamp": nil, "generation": nil, "managedFields": nil,
	}})
}

// runnable returns an object whose pods run on this node.
func runnable(o dnsfaults.Object) dnsfaults.Object {
	if o["kind"] != "Pod" {
		return withoutState(o)
	}
	return dnsfaults.Merge(withoutState(o), dnsfaults.Object{"spec": map[string]any{
		"nodeName": nil, "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": false,
		"containers": []any{map[string]any{"name": container, "image": nodetools.LibrariesImage, "imagePullPolicy": "Never"}},
	}})
}
