// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package podfile

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEvent(t *testing.T) {
	var b bytes.Buffer
	want := Event{Kind: Creating, Sequence: 7, Path: "/x", First: true, Sandbox: Sandbox{
		ID: "a", Namespace: "shop", Name: "web", UID: "u", HostNetwork: true,
		Annotations: map[string]string{"dnsconfigurer.dev/skip": "true"},
	}}
	if err := Write(&b, want); err != nil {
		t.Fatal(err)
	}
	count := 0
	if err := Read(&b, func(e Event) error {
		count++
		if diff := cmp.Diff(want, e); diff != "" {
			t.Errorf("-written +read:\n%s", diff)
		}
		return nil
	}); err != nil || count != 1 {
		t.Errorf("%d events, %v", count, err)
	}
}

// TestEvent_Long: a line beyond the limit is an error on both sides.
func TestEvent_Long(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, Event{Path: strings.Repeat("x", maxLine)}); err == nil || b.Len() != 0 {
		t.Errorf("%v, %d bytes written", err, b.Len())
	}
	line := `{"path":"` + strings.Repeat("x", maxLine) + "\"}\n"
	if err := Read(strings.NewReader(line), func(Event) error { return nil }); err == nil {
		t.Error("no error for a long line")
	}
}

func TestBoundAnnotations(t *testing.T) {
	got := BoundAnnotations(map[string]string{
		"dnsconfigurer.dev/policy": "None", "kubernetes.io/config.source": "api",
		"kubernetes.io/config.hash": strings.Repeat("x", 1<<18), "other": "secret",
	})
	if len(got) != 3 || got["dnsconfigurer.dev/policy"] != "None" || len(got["kubernetes.io/config.hash"]) > maxAnnotation {
		t.Errorf("%d annotations, one of %d bytes", len(got), len(got["kubernetes.io/config.hash"]))
	}
}

// TestBoundAnnotations_Many: the author of a pod chooses the names of its annotations, too. The event
// of such a pod fits into a line.
func TestBoundAnnotations_Many(t *testing.T) {
	all := map[string]string{}
	for i := range 1000 {
		for _, prefix := range []string{"dnsconfigurer.dev/", "kubernetes.io/config."} {
			all[fmt.Sprint(prefix, i)] = strings.Repeat("\x01", maxAnnotation)
		}
	}
	for _, name := range annotations {
		all[name] = strings.Repeat("\x01", 1<<18)
	}
	e := Event{Sandbox: Sandbox{Annotations: BoundAnnotations(all)}}
	if err := Write(io.Discard, e); err != nil || len(e.Sandbox.Annotations) != len(annotations) {
		t.Errorf("%d annotations, %v", len(e.Sandbox.Annotations), err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"kind":"creating","sequence":1,"sandbox":{"id":"a"}}` + "\n")
	f.Add("\n\n{}")
	f.Fuzz(func(_ *testing.T, text string) {
		_ = Read(strings.NewReader(text), func(Event) error { return nil })
		_ = Read(strings.NewReader(text), func(Ack) error { return nil })
	})
}
