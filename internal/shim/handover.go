// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/handover"
	"github.com/dnsconfigurer/dnsconfigurer/internal/systemd"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
)

// successorTimeout is how long a new process may take until it serves. The unit in deploy/systemd
// has a shorter limit for its command.
const successorTimeout = time.Minute

// warmUpTimeout is how long a new process waits for the pods of the node before it serves. The
// previous one serves meanwhile.
const warmUpTimeout = 3 * time.Second

// The names of the files that are passed to a new process.
const (
	fileSocket = "socket"
	fileLock   = "lock"
	fileHTTP   = "http"

	fileStatus     = "status"
	fileStatusLock = "status lock"
)

// handoverState is passed to a new process. Fields may be added, not changed: the processes are of
// different versions.
type handoverState struct {
	Listen       string `json:"listen"`       // path of the socket
	RemoveSocket bool   `json:"removeSocket"` // the socket is not the service manager's
	HTTP         string `json:"http"`         // address of the socket that is passed; "": none
	EventStreams int    `json:"eventStreams"` // of the container runtime
	Completed    int    `json:"completed"`    // handovers, including this one
	Failed       int    `json:"failed"`
	StatusSocket string `json:"statusSocket"` // path of the socket that is passed; "": none
}

// handovers lets the shim take over from a previous process and hand over to a new one.
type handovers struct {
	shim     *cri.Shim
	listener *cri.Listener
	http     *httpSocket
	status   *statusSocket
	notifier systemd.Notifier
	log      *slog.Logger

	previous *handover.Predecessor // nil: none
	warm     <-chan struct{}       // closed when the pods of the node are known; nil: no need to wait
	draining handover.Draining
	isMain   chan struct{} // closed when the previous process has handed over, or there was none

	successor         *handover.Successor // set before done is closed
	done              chan struct{}       // closed when the successor is the main process
	completed, failed int
	results           *prometheus.CounterVec
}

// register registers the metrics.
func (h *handovers) register(r prometheus.Registerer) {
	h.results = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dnsconfigurer_handovers_total",
		Help: "Handovers to a new process, by result. A new process continues the count.",
	}, []string{"result"})
	h.results.WithLabelValues("completed").Add(float64(h.completed))
	h.results.WithLabelValues("failed").Add(float64(h.failed))
	r.MustRegister(h.results,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dnsconfigurer_draining_processes",
			Help: "Previous processes of the shim that complete their calls.",
		}, func() float64 { n, _ := h.draining.Count(); return float64(n) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dnsconfigurer_draining_calls",
			Help: "Calls in progress in previous processes of the shim.",
		}, func() float64 { _, n := h.draining.Count(); return float64(n) }),
	)
}

// receive takes the socket and the state of the previous process. path is that of the socket in
// the configuration.
func (h *handovers) receive(path string) error {
	var s handoverState
	if err := h.previous.State(&s); err != nil {
		return err
	}
	files := map[string]*os.File{}
	for _, name := range []string{fileSocket, fileLock} {
		if files[name] = h.previous.File(name); files[name] == nil {
			return fmt.Errorf("the previous process did not pass its %s", name)
		}
	}
	if s.Listen != path {
		return fmt.Errorf("listen: is %s, and the running process serves %s: restart the shim", path, s.Listen)
	}
	var err error
	h.listener, err = cri.TakeOver(cri.Handoff{Path: path, RemoveSocket: s.RemoveSocket, Socket: files[fileSocket], Lock: files[fileLock]})
	if err != nil {
		return err
	}
	h.completed, h.failed = s.Completed, s.Failed
	h.shim.EventStreams = s.EventStreams
	h.receiveOthers(s)
	return nil
}

// receiveOthers takes the sockets for which a handover must not fail: the node needs its pods, and
// the process opens other ones, as soon as the previous process has closed its own.
func (h *handovers) receiveOthers(s handoverState) {
	if err := h.status.receive(h.previous.File(fileStatus), h.previous.File(fileStatusLock), s.StatusSocket); err != nil {
		h.log.Warn("status socket not taken over, opening another one", "error", err)
	}
	if err := h.http.receive(h.previous.File(fileHTTP), s.HTTP); err != nil {
		h.log.Warn("socket of metrics and health not taken over, opening another one", "error", err)
	}
}

// serve serves until ctx ends, or another process serves and the calls are complete.
func (h *handovers) serve(ctx context.Context) error {
	if h.warm != nil {
		select {
		case <-h.warm:
		case <-time.After(warmUpTimeout):
		case <-ctx.Done():
		}
	}
	ctx, stop := context.WithCancel(ctx)
	return daemon.RunAll(ctx,
		func(ctx context.Context) error { defer stop(); return h.shim.Run(ctx) },
		func(ctx context.Context) error { defer stop(); return h.watchSuccessor(ctx) })
}

// logShutdown logs that ctx has ended, which begins the drain.
func (h *handovers) logShutdown(ctx context.Context) error {
	select {
	case <-ctx.Done():
		h.log.Info("shutting down", "calls", h.shim.Calls(), "drainTimeout", h.shim.DrainTimeout)
	case <-h.done: // handOver has logged the calls
	}
	return nil
}

// watchSuccessor returns when this process must end.
func (h *handovers) watchSuccessor(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-h.done:
	}
	if reason := h.successor.Watch(ctx, h.shim.Calls); reason != nil {
		h.log.Warn("ending before all calls are complete", "reason", reason, "calls", h.shim.Calls())
	}
	return nil
}

// runMain does what only the main process of the service does: it notifies systemd, and counts
// and stops the previous processes.
func (h *handovers) runMain(ctx context.Context) error {
	if h.previous != nil {
		select {
		case <-h.listener.Accepting():
		case <-ctx.Done():
			return nil
		}
		if err := h.previous.Ready(ctx, &h.draining); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		h.log.Info("took over from the previous process", "handovers", h.completed)
	}
	close(h.isMain)
	return daemon.RunAll(ctx,
		h.untilHandover(func(ctx context.Context) error { return h.notifier.Run(ctx, h.shim.Alive, h.log) }),
		func(ctx context.Context) error { return h.draining.Run(ctx, h.done, h.shim.DrainTimeout+time.Second) })
}

// asMain returns a task that runs while this process is the main one: two processes must not write
// the same files.
func (h *handovers) asMain(task daemon.Task) daemon.Task {
	return h.untilHandover(func(ctx context.Context) error {
		select {
		case <-h.isMain:
			return task(ctx)
		case <-ctx.Done():
			return nil
		}
	})
}

// untilHandover returns a task that ends when another process serves, too.
func (h *handovers) untilHandover(task daemon.Task) daemon.Task {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		go func() {
			select {
			case <-h.done:
				cancel(systemd.ErrHandedOver)
			case <-ctx.Done():
			}
		}()
		return task(ctx)
	}
}

// handOver is a cri.Shim.Handover.
func (h *handovers) handOver(ctx context.Context) error {
	h.log.Info("handing over to a new process")
	s, err := h.start(ctx)
	if err == nil {
		// systemd ignores what another process than the main one sends. So the new process waits
		// for Confirm, after which it notifies systemd itself.
		if err = h.notifier.HandOver(s.PID); err != nil {
			s.Abort()
			err = fmt.Errorf("cannot notify systemd of the new main process: %w", err)
		}
	}
	if err != nil {
		h.failed++
		h.results.WithLabelValues("failed").Inc()
		h.log.Error("handover failed, this process keeps serving", "error", err)
		return err
	}
	h.status.keepPath()
	s.Confirm()
	h.log.Info("handed over, completing calls", "pid", s.PID, "calls", h.shim.Calls(), "limit", h.shim.HandoverTimeout)
	h.successor = s
	close(h.done)
	return nil
}

// start starts the new process.
func (h *handovers) start(ctx context.Context) (*handover.Successor, error) {
	socket, err := h.listener.Handoff()
	if err != nil {
		return nil, err
	}
	defer socket.Socket.Close()
	files := map[string]*os.File{fileSocket: socket.Socket, fileLock: socket.Lock}
	state := handoverState{Listen: socket.Path, RemoveSocket: socket.RemoveSocket,
		EventStreams: h.shim.CountEventStreams(), Completed: h.completed + 1, Failed: h.failed}
	if http := h.http.file(); http != nil {
		defer http.Close()
		files[fileHTTP], state.HTTP = http, h.http.address
	}
	if status := h.status.add(files, &state); status != nil {
		defer status.Close()
	}
	return handover.Start(ctx, handover.Program{
		Env: h.notifier.Environment(), Files: files, State: state, Draining: &h.draining, Timeout: successorTimeout,
	})
}
