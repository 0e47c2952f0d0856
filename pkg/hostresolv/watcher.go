// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// The defaults of a Config.
const (
	DefaultUplinkPath = "/run/systemd/resolve/resolv.conf"
	DefaultNoStubPath = "/run/NetworkManager/no-stub-resolv.conf" // NetworkManager(8), "dns" of NetworkManager.conf(5)
	DefaultDebounce   = 100 * time.Millisecond
	DefaultPoll       = 30 * time.Second
)

// Config configures a [Watcher]. Only Path is required.
type Config struct {
	// Path is the file that the kubelet gives to pods, as in its configuration. It may be
	// a link. It must not be empty: a kubelet with an empty path gives pods no file.
	Path string

	// Uplink is when UplinkPath or NoStubPath is read instead of Path.
	Uplink UplinkMode

	// UplinkPath is the uplink file, in which systemd-resolved lists its own servers; "" is
	// DefaultUplinkPath. The stub file is stub-resolv.conf in the same directory.
	UplinkPath string

	// NoStubPath is the uplink file of NetworkManager, which it writes without its own server
	// on the loopback, such as dnsmasq; "" is DefaultNoStubPath.
	NoStubPath string

	// Debounce is how long the file must be unchanged before it is read; 0 is
	// DefaultDebounce. A file that changes all the time is read after ten times Debounce.
	Debounce time.Duration

	// Poll is the interval at which the file is read without an event; 0 is DefaultPoll.
	Poll time.Duration

	// Logger logs every change of state; nil discards the logs.
	Logger *slog.Logger
}

// UplinkMode is when an uplink file is read instead of the file that the kubelet reads.
type UplinkMode uint8

const (
	// UplinkNever always reads the kubelet's file.
	UplinkNever UplinkMode = iota

	// UplinkAuto reads and watches the uplink file if the kubelet's file is the stub of
	// systemd-resolved, whose server listens on the node's loopback, where pods cannot reach
	// it. If the file names other servers on the loopback only, it reads the file of
	// NetworkManager. The stub is used until there has been a good uplink file.
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

// Watcher watches the host's resolv.conf. It is safe for concurrent use.
type Watcher struct {
	cfg    Config // with defaults
	notify notifyFunc

	ran     atomic.Bool // Run was called
	current atomic.Pointer[version]
	mu      sync.Mutex // held while reading the files and setting current
}

// version is a published snapshot with the files that it was made from. Two versions with the
// same channel differ in the observation only.
type version struct {
	Snapshot
	observation
	newer chan struct{} // closed after a newer snapshot was published
}

// New returns a Watcher that has read the file once. An unusable file is not an error; the
// snapshot has the problem. New starts no goroutine and keeps no file open.
func New(cfg Config) (*Watcher, error) {
	switch {
	case cfg.Path == "":
		return nil, errors.New("hostresolv: empty path of the host's resolv.conf")
	case cfg.Uplink > UplinkAuto:
		return nil, fmt.Errorf("hostresolv: unknown UplinkMode %d", cfg.Uplink)
	case cfg.Debounce < 0 || cfg.Poll < 0:
		return nil, fmt.Errorf("hostresolv: debounce %v and poll %v must not be negative", cfg.Debounce, cfg.Poll)
	}
	cfg.UplinkPath = cmp.Or(cfg.UplinkPath, DefaultUplinkPath)
	cfg.NoStubPath = cmp.Or(cfg.NoStubPath, DefaultNoStubPath)
	cfg.Debounce = cmp.Or(cfg.Debounce, DefaultDebounce)
	cfg.Poll = cmp.Or(cfg.Poll, DefaultPoll)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{cfg: cfg, notify: notify}
	w.current.Store(&version{Snapshot: Snapshot{Path: cfg.Path}, newer: make(chan struct{})})
	w.readFiles()
	return w, nil
}

// Current returns the newest snapshot, and a channel that is closed when there is a newer one.
// It never blocks.
func (w *Watcher) Current() (Snapshot, <-chan struct{}) {
	v := w.current.Load()
	return v.Snapshot, v.newer
}

// Reread returns a snapshot of the file as it is now. It calls stat(2), and reads the file again
// only if the result has changed. Run need not be running. The snapshot returned has a new problem
// at once; Run publishes it only if it lasts longer than the debounce, because the file may
// be half-written.
func (w *Watcher) Reread() Snapshot {
	changed := func(r reading) bool { return !r.unchanged() }
	if v := w.current.Load(); !slices.ContainsFunc(v.read, changed) {
		return v.Snapshot
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.current.Load() // may be newer now
	if !slices.ContainsFunc(old.read, changed) {
		return old.Snapshot
	}
	o := w.observe()
	s := old.next(o, time.Now())
	if s.Problem.Err == nil || old.Problem.Err != nil {
		w.publish(s, o)
	}
	return s
}

// readFiles reads the files and publishes the result.
func (w *Watcher) readFiles() {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.observe()
	w.publish(w.current.Load().next(o, time.Now()), o)
}

// publish makes s the current snapshot. Readers are not notified if it equals the previous
// one. w.mu must be held.
func (w *Watcher) publish(s Snapshot, o observation) {
	old := w.current.Load()
	if reflect.DeepEqual(s, old.Snapshot) {
		w.current.Store(&version{s, o, old.newer})
		return
	}
	w.current.Store(&version{s, o, make(chan struct{})})
	close(old.newer)
	w.logChange(old.Snapshot, s)
}

// logChange logs the difference between old and s.
func (w *Watcher) logChange(old, s Snapshot) {
	log := w.cfg.Logger.With("path", s.Path, "source", s.Source)
	if s.Since != old.Since && s.File.Err == nil {
		c := s.File.Config()
		log.Info("read the host's resolv.conf", "nameservers", excerpt.List(c.Nameservers), "searches", excerpt.List(c.Searches),
			"options", excerpt.List(c.Options), "stub", s.Stub, "uplink", s.Uplink)
		if servers := s.Loopback(); len(servers) > 0 {
			log.Warn("the host's resolv.conf has nameservers on the loopback of the node", "nameservers", excerpt.List(servers))
		}
	}
	switch problem := errorText(s.Problem.Err); {
	case problem == errorText(old.Problem.Err):
	case problem == "":
		log.Info("the host's resolv.conf is usable again", "after", time.Since(old.Problem.Since))
	default:
		log.Warn("the host's resolv.conf is unusable", "error", problem)
	}
}
