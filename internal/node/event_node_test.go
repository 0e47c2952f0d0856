// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSendNode(t *testing.T) {
	api := &eventAPI{}
	c := newReporter(t, api, io.Discard).events.client
	if err := SendNode(t.Context(), c, "node1", corev1.EventTypeWarning, ReasonBypassBegan, strings.Repeat("x", 5000)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"POST /api/v1/namespaces/default/events"}; !slices.Equal(api.requests, want) {
		t.Errorf("%q, want %q", api.requests, want)
	}
	for _, part := range []string{"Node", "node1", "ShimBypassed", "Warning"} {
		if !strings.Contains(api.bodies[0], part) {
			t.Errorf("the event lacks %s: %q", part, api.bodies[0])
		}
	}
	if n := len(api.bodies[0]); n > 2048 {
		t.Errorf("%d bytes", n)
	}
	api.answer = func(string) (int, error) { return http.StatusForbidden, nil }
	if err := SendNode(t.Context(), c, "node1", corev1.EventTypeNormal, ReasonBypassEnded, ""); err == nil {
		t.Error("no error when the API server rejects the event")
	}
}
