// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"cmp"
	"context"
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
	DefaultPoll       = 500 * time.Millisecond
)

// Config configures a [Watcher].
type Config struct {
	// Path is the file that the kubelet gives to pods, as in its configuration. It may be
	// a link. "": there is none, as with the kubelet, and the snapshot is always empty.
	Path string

	// Uplink reads and watches UplinkPath if the kubelet's file is the stub of systemd-resolved,
	// whose server listens on the node's loopback, where pods cannot reach it. If the file names
	// other servers on the loopback only, NoStubPath is read. The stub is used until there has been
	// a good uplink file.
	Uplink bool

	// UplinkPath is the uplink file, in which systemd-resolved lists its own servers; "" is
	// DefaultUplinkPath. The stub file is stub-resolv.conf in the same directory.
	UplinkPath string

	// NoStubPath is the uplink file of NetworkManager, which it writes without its own server
	// on the loopback, such as dnsmasq; "" is DefaultNoStubPath.
	NoStubPath string

	// Poll is the interval at which the file is compared with the one that was read; 0 is
	// DefaultPoll. A file that was equal at two polls is published, and one that changes
	// all the time after ten.
	Poll time.Duration

	// Logger logs every change of state; nil discards the logs.
	Logger *slog.Logger
}

// Watcher watches the host's resolv.conf. It is safe for concurrent use.
type Watcher struct {
	cfg     Config // with defaults
	current atomic.Pointer[version]

	mu      sync.Mutex  // held while reading the files and setting current
	pending observation // of the last poll, if it is not published
	polls   int         // the consecutive polls with a pending observation
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
func New(cfg Config) *Watcher {
	cfg.UplinkPath = cmp.Or(cfg.UplinkPath, DefaultUplinkPath)
	cfg.NoStubPath = cmp.Or(cfg.NoStubPath, DefaultNoStubPath)
	cfg.Poll = cmp.Or(cfg.Poll, DefaultPoll)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{cfg: cfg}
	w.current.Store(&version{Snapshot: Snapshot{Path: cfg.Path}, newer: make(chan struct{})})
	if cfg.Path != "" {
		o := w.observe()
		w.publish(w.current.Load().next(o), o)
	}
	return w
}

// Current returns the newest snapshot, and a channel that is closed when there is a newer one.
// It never blocks.
func (w *Watcher) Current() (Snapshot, <-chan struct{}) {
	v := w.current.Load()
	return v.Snapshot, v.newer
}

// Run keeps the snapshot up to date until ctx is done, and then returns nil.
func (w *Watcher) Run(ctx context.Context) error {
	poll := time.NewTicker(w.cfg.Poll)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
			w.poll()
		}
	}
}

// maxPolls is the number of polls after which a file is published even if it still changes.
const maxPolls = 10

// poll reads the files if they have changed, and publishes what was the same at the last poll.
func (w *Watcher) poll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.current.Load()
	if old.unchanged() {
		w.pending, w.polls = observation{}, 0
		return
	}
	o := w.observe()
	if w.polls++; w.polls < maxPolls && !o.equal(w.pending) && !o.equal(old.observation) {
		w.pending = o
		return
	}
	w.publish(old.next(o), o)
	w.pending, w.polls = observation{}, 0
}

// Reread returns a snapshot of the file as it is now. It calls stat(2), and reads the file again
// only if the result has changed. Run need not be running. The snapshot returned has a new problem
// at once; Run publishes it only if it lasts for two polls, because the file may be half-written.
func (w *Watcher) Reread() Snapshot {
	if v := w.current.Load(); v.unchanged() {
		return v.Snapshot
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.current.Load() // may be newer now
	if old.unchanged() {
		return old.Snapshot
	}
	o := w.observe()
	s := old.next(o)
	if s.Problem == nil || old.Problem != nil {
		w.publish(s, o)
	}
	return s
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
	log := w.cfg.Logger.With("path", s.Path, "source", s.File.Path)
	if s.File.Err == nil && !reflect.DeepEqual(s.File, old.File) {
		c := s.File.Config()
		log.Info("read the host's resolv.conf", "nameservers", excerpt.List(c.Nameservers), "searches", excerpt.List(c.Searches),
			"options", excerpt.List(c.Options), "stub", s.Stub, "uplink", s.Uplink)
		// Pods cannot reach them, and a DNS server on this node would forward queries to itself.
		servers := slices.DeleteFunc(c.Nameservers, func(server string) bool { return !isLoopback(server) })
		if len(servers) > 0 {
			log.Warn("the host's resolv.conf has nameservers on the loopback of the node", "nameservers", excerpt.List(servers))
		}
	}
	switch problem := errorText(s.Problem); {
	case problem == errorText(old.Problem):
	case problem == "":
		log.Info("the host's resolv.conf is usable again")
	default:
		log.Warn("the host's resolv.conf is unusable", "error", problem)
	}
}
