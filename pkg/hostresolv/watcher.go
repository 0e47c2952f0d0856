// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// The defaults of a Config.
const (
	DefaultUplinkPath = "/run/systemd/resolve/resolv.conf"
	DefaultDebounce   = 100 * time.Millisecond
	DefaultPoll       = 30 * time.Second
)

// Config says what to watch. The zero value of every field but Path is usable.
type Config struct {
	// Path is the file that the kubelet gives to pods, as it is configured
	// there; links are followed. It must not be empty: then there is no file.
	Path string

	// Uplink is when the uplink file of systemd-resolved is read instead of Path.
	Uplink UplinkMode

	// UplinkPath is where systemd-resolved lists the servers that it asks
	// itself; empty is DefaultUplinkPath. Its stub file is stub-resolv.conf in
	// the same directory.
	UplinkPath string

	// Debounce is how long the file must be left alone before it is read; 0 is
	// DefaultDebounce. Under constant change it is read after ten times this.
	Debounce time.Duration

	// Poll is how often the file is read without any event; 0 is DefaultPoll.
	Poll time.Duration

	// Logger gets a line for every change of state; nil discards them.
	Logger *slog.Logger
}

// UplinkMode is when the uplink file of systemd-resolved is read instead of the file
// that the kubelet reads.
type UplinkMode uint8

const (
	// UplinkNever always reads the kubelet's file.
	UplinkNever UplinkMode = iota

	// UplinkAuto reads and watches the uplink file if the kubelet's file is the stub
	// of systemd-resolved, whose server listens on the node's loopback, where pods
	// cannot reach it. The stub is used until there has been a good uplink file.
	UplinkAuto
)

// ParseUplinkMode parses "never" or "auto"; "" is never.
func ParseUplinkMode(s string) (UplinkMode, error) {
	switch s {
	case "", "never":
		return UplinkNever, nil
	case "auto":
		return UplinkAuto, nil
	}
	return UplinkNever, fmt.Errorf("%q: want never or auto", s)
}

// Watcher keeps the host's resolv.conf. All its methods may be called at once.
type Watcher struct {
	cfg    Config // with the defaults filled in
	notify notifyFunc

	ran     atomic.Bool // Run was called
	current atomic.Pointer[version]
	mu      sync.Mutex // held by the writer of current, from its look at the files on
}

// version is a published snapshot and what it was made from. Only stamps and names
// differ between two versions with the same channel.
type version struct {
	Snapshot
	stamps []stamp       // of the files that were read
	names  []string      // whose change can change the snapshot
	newer  chan struct{} // closed after the next one was published
}

// New checks the configuration, reads the file and returns its Watcher. Trouble with
// the file is no error, the snapshot says so. Nothing is started, nothing stays
// open, and a Watcher needs no closing.
func New(cfg Config) (*Watcher, error) {
	switch {
	case cfg.Path == "":
		return nil, errors.New("hostresolv: the path of the host's resolv.conf is empty")
	case cfg.Uplink > UplinkAuto:
		return nil, fmt.Errorf("hostresolv: unknown UplinkMode %d", cfg.Uplink)
	case cfg.Debounce < 0 || cfg.Poll < 0:
		return nil, fmt.Errorf("hostresolv: debounce %v and poll %v must not be negative", cfg.Debounce, cfg.Poll)
	}
	if cfg.UplinkPath == "" {
		cfg.UplinkPath = DefaultUplinkPath
	}
	if cfg.Debounce == 0 {
		cfg.Debounce = DefaultDebounce
	}
	if cfg.Poll == 0 {
		cfg.Poll = DefaultPoll
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{cfg: cfg, notify: notify}
	w.current.Store(&version{Snapshot: Snapshot{Path: cfg.Path}, newer: make(chan struct{})})
	w.read()
	return w, nil
}

// Current returns the newest snapshot, and a channel that is closed when there is a
// newer one. It never waits.
func (w *Watcher) Current() (Snapshot, <-chan struct{}) {
	v := w.current.Load()
	return v.Snapshot, v.newer
}

// Refresh returns a snapshot that is as new as the file: it costs a stat, and a read
// if that differs from the last one. It may be called whether Run does or not. A
// problem that is found here is in the snapshot returned; Run publishes it when it
// outlasts the debounce, for the file may be half-written.
func (w *Watcher) Refresh() Snapshot {
	if v := w.current.Load(); v.holds() {
		return v.Snapshot
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.current.Load() // somebody else may have read the file meanwhile
	if old.holds() {
		return old.Snapshot
	}
	o := w.observe()
	s := old.after(o, time.Now())
	if s.Problem.Err == nil || old.Problem.Err != nil {
		w.publish(s, o)
	}
	return s
}

// holds tells whether the files are still those of v.
func (v *version) holds() bool {
	for _, s := range v.stamps {
		if !s.holds() {
			return false
		}
	}
	return true
}

// read reads the files and publishes what is new.
func (w *Watcher) read() {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.observe()
	w.publish(w.current.Load().after(o, time.Now()), o)
}

// publish makes s the current snapshot. Nobody is woken if it says the same as the
// one before. The caller holds mu.
func (w *Watcher) publish(s Snapshot, o observation) {
	old := w.current.Load()
	v := &version{Snapshot: s, stamps: o.stamps(), names: o.names(), newer: old.newer}
	if s.equal(old.Snapshot) {
		w.current.Store(v)
		return
	}
	v.newer = make(chan struct{})
	w.current.Store(v)
	close(old.newer)
	w.report(old.Snapshot, s)
}

// report logs what changed from old to s.
func (w *Watcher) report(old, s Snapshot) {
	log := w.cfg.Logger.With("path", s.Path, "source", s.Source)
	if s.Since != old.Since && s.File.Err == nil {
		c := s.File.Config()
		log.Info("read the host's resolv.conf", "nameservers", c.Nameservers, "searches", c.Searches, "options", c.Options,
			"stub", s.Stub, "uplink", s.Uplink)
		if back := s.Loopback(); len(back) > 0 {
			log.Warn("the host's resolv.conf sends pods to a loopback address of the node", "nameservers", back)
		}
	}
	switch problem := text(s.Problem.Err); {
	case problem == text(old.Problem.Err):
	case problem == "":
		log.Info("the host's resolv.conf is good again", "after", time.Since(old.Problem.Since))
	default:
		log.Warn("the host's resolv.conf is not used as it is now", "error", problem)
	}
}
