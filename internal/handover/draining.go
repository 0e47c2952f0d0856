// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Draining counts the processes that this one has replaced, directly or not, and that complete
// their work. The zero value counts none.
type Draining struct {
	mu    sync.Mutex
	calls map[link]int // in progress, as the process last reported
}

func (d *Draining) add(links []link) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calls == nil {
		d.calls = map[link]int{}
	}
	for _, l := range links {
		d.calls[l] = 0
	}
}

// Count returns the number of processes, and of the calls in progress in them.
func (d *Draining) Count() (processes, calls int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.calls {
		calls += n
	}
	return len(d.calls), calls
}

// links returns the links to the processes.
func (d *Draining) links() (all []link) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for l := range d.calls {
		all = append(all, l)
	}
	return all
}

// files returns copies of the links, for another process.
func (d *Draining) files() (files []*os.File, err error) {
	for _, l := range d.links() {
		f, err := Duplicate(l)
		if err != nil {
			closeAll(files)
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// Run receives what the processes report, until all have ended. It must be called after
// [Predecessor.Ready]. When ctx ends, it stops the processes, and waits for them up to timeout.
// When handedOver is closed it returns: then another process counts them.
func (d *Draining) Run(ctx context.Context, handedOver <-chan struct{}, timeout time.Duration) error {
	var receivers sync.WaitGroup
	for _, l := range d.links() {
		receivers.Go(func() { d.receive(l) })
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		receivers.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-handedOver:
	case <-ctx.Done():
		for _, l := range d.links() {
			_ = l.send(stop) // the process may have ended
		}
		select {
		case <-ended:
		case <-time.After(timeout):
		}
	}
	for _, l := range d.links() {
		l.Close()
	}
	<-ended
	return nil
}

// receive receives what one process reports.
func (d *Draining) receive(l link) {
	for {
		message, err := l.receive()
		number, isCalls := strings.CutPrefix(message, calls)
		n, parseErr := strconv.Atoi(number)
		d.mu.Lock()
		switch {
		case err != nil:
			delete(d.calls, l)
		case isCalls && parseErr == nil && n >= 0:
			d.calls[l] = n
		}
		d.mu.Unlock()
		if err != nil {
			l.Close()
			return
		}
	}
}
