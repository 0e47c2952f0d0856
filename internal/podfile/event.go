// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package podfile

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// maxLine is the longest line in bytes. An event has some hundred bytes, see BoundAnnotations, and at most
// two files of MaxSize bytes from a shim, which JSON can make six times as long.
const maxLine = 64 << 10

// Kind is what has happened.
type Kind string

// The kinds.
const (
	// Reset is the first event of a connection of a relay or a shim: all sandboxes follow, as Started
	// or Running, and then Synchronized or Unsynchronized.
	Reset Kind = "reset"

	// Synchronized follows the sandboxes if they are those of the container runtime: there are no
	// others. It has no sandbox.
	Synchronized Kind = "synchronized"

	// Unsynchronized: the relay has no connection to the container runtime, or no longer.
	// Sandboxes may start and end without an event until Synchronized. It has no sandbox.
	Unsynchronized Kind = "unsynchronized"

	// Registering: the relay asks for the stops in flight before it registers with the container
	// runtime. It has no sandbox.
	Registering Kind = "registering"

	// Started: the sandbox exists and has no container.
	Started Kind = "started"

	// Creating: the runtime is about to create a container, and waits for the acknowledgement.
	Creating Kind = "creating"

	// Running: the sandbox has containers, which may be running.
	Running Kind = "running"

	// Removed: the sandbox does not exist any more. Only its ID is set.
	Removed Kind = "removed"
)

// Event is an event of a sandbox.
type Event struct {
	Kind     Kind   `json:"kind"`
	Sequence uint64 `json:"sequence,omitempty"` // of Creating and Registering; 0: no acknowledgement

	Sandbox Sandbox `json:"sandbox,omitzero"`

	// Request is set by a shim, for Running: it has forwarded the request that created the sandbox.
	Request *Request `json:"request,omitempty"`

	// Path is the source of the mount of /etc/resolv.conf, for Creating and Running.
	Path string `json:"path,omitempty"`

	// First reports whether no container with this mount was created before, for Creating.
	First bool `json:"first,omitempty"`

	// Expires is when the runtime stops waiting, for Creating, by the clock of uptime, which cannot be set: the
	// container may run and write the file from then on. 0: not known.
	Expires time.Duration `json:"expires,omitempty"`
}

// ExpireAfter sets Expires.
func (e *Event) ExpireAfter(d time.Duration) { e.Expires = uptime() + d }

// HasExpired reports whether the runtime has stopped waiting. The time that the event took from the
// relay counts.
func (e *Event) HasExpired() bool { return e.Expires != 0 && uptime() > e.Expires }

// Request is what a shim has done with the request that created a sandbox. The zero value is not known:
// another process has forwarded it.
type Request struct {
	Outcome  string `json:"outcome,omitempty"`  // a cri.Outcome
	Kubelet  string `json:"kubelet,omitempty"`  // the resolv.conf of the kubelet
	Decision string `json:"decision,omitempty"` // that of the decision, for Edited, Unchanged and Observed
}

// Sandbox describes a sandbox as NRI does.
type Sandbox struct {
	ID          string            `json:"id"`
	Namespace   string            `json:"namespace,omitempty"`
	Name        string            `json:"name,omitempty"`
	UID         string            `json:"uid,omitempty"`
	HostNetwork bool              `json:"hostNetwork,omitempty"`
	IPs         []string          `json:"ips,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"` // see BoundAnnotations
}

// maxAnnotation is the longest value of an annotation in bytes.
const maxAnnotation = 256

// annotations are the names of those that decide the DNS of a pod or identify it.
var annotations = []string{
	"dnsconfigurer.dev/policy", "dnsconfigurer.dev/refresh", "dnsconfigurer.dev/skip",
	"kubernetes.io/config.source", "kubernetes.io/config.hash", "kubernetes.io/config.mirror",
}

// BoundAnnotations returns the annotations that an Event has. A pod may have 256 KiB of others, of any
// prefix, and secrets: more than a line may have.
func BoundAnnotations(all map[string]string) map[string]string {
	bounded := map[string]string{}
	for _, name := range annotations {
		if value, ok := all[name]; ok {
			bounded[name] = excerpt.Text(value, maxAnnotation)
		}
	}
	return bounded
}

// Ack acknowledges the event with its sequence number.
type Ack struct {
	Sequence uint64 `json:"sequence"`

	Stopping int  `json:"stopping,omitempty"` // pods whose containers are being stopped, for Registering
	Unknown  bool `json:"unknown,omitempty"`  // the agent does not know the pods of the node yet
}

// Write writes v, an Event or an Ack.
func Write(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(line) >= maxLine {
		return fmt.Errorf("the line has %d bytes: the limit is %d", len(line), maxLine)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// Read calls handle with each Event or Ack of r until r ends or handle fails.
func Read[T Event | Ack](r io.Reader, handle func(T) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			return fmt.Errorf("invalid line: %w", err)
		}
		if err := handle(v); err != nil {
			return err
		}
	}
	if err := s.Err(); !errors.Is(err, bufio.ErrTooLong) {
		return err
	}
	return fmt.Errorf("a line has more than %d bytes", maxLine)
}
