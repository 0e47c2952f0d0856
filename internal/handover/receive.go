// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// A Predecessor is the process that this one replaces.
type Predecessor struct {
	link     link
	files    map[string]*os.File
	draining []link
	state    json.RawMessage
}

// Receive returns the process that started this one as its successor, nil if there is none. It
// removes the variable of the protocol from the environment.
func Receive() (*Predecessor, error) {
	text := os.Getenv(variable)
	_ = os.Unsetenv(variable) // fails for invalid names only
	if text == "" {
		return nil, nil
	}
	var o offer
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	fd := firstFile
	next := func(name string) *os.File {
		closeOnExec(fd) // programs that this one runs must not hold the lock
		fd++
		return os.NewFile(uintptr(fd-1), name)
	}
	p := &Predecessor{state: o.State, files: map[string]*os.File{}}
	var err error
	if p.link, err = newLink(next("link")); err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	for _, name := range o.Files {
		p.files[name] = next(name)
	}
	for range o.Draining {
		l, err := newLink(next("link"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
		p.draining = append(p.draining, l)
	}
	return p, nil
}

// State stores the state that was passed in the value that v points to.
func (p *Predecessor) State(v any) error { return json.Unmarshal(p.state, v) }

// File returns a file that was passed, nil if there is none of this name. The caller closes it.
func (p *Predecessor) File(name string) *os.File { return p.files[name] }

// Refuse reports why this process cannot replace the other one.
func (p *Predecessor) Refuse(reason error) { _ = p.link.send(refused + reason.Error()) }

// Ready reports that this process serves, and returns when it is the main process. d then counts
// the other one and those that it has replaced.
func (p *Predecessor) Ready(ctx context.Context, d *Draining) error {
	defer context.AfterFunc(ctx, func() { _ = p.link.SetReadDeadline(time.Unix(1, 0)) })()
	if err := p.link.send(ready); err != nil {
		return fmt.Errorf("taking over from the previous process: %w", err)
	}
	message, err := p.link.receive()
	if err == nil && message != confirmed {
		err = fmt.Errorf("unexpected message %q", message)
	}
	if err != nil {
		return fmt.Errorf("taking over from the previous process: %w", err)
	}
	d.add(append(p.draining, p.link))
	return p.link.SetReadDeadline(time.Time{})
}
