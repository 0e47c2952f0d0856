// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// A Task runs until ctx ends or it fails.
type Task = func(ctx context.Context) error

// NoTask waits until ctx ends.
func NoTask(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Sleep waits for d, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Notify sends to a channel of capacity one, unless a value is pending.
func Notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// RunAll runs tasks until ctx ends or one of them fails, which ends the others. It returns
// the first error when all have returned.
func RunAll(ctx context.Context, tasks ...Task) error { return Group{Tasks: tasks}.Run(ctx) }

// A Group is the tasks of a server.
type Group struct {
	Tasks []Task

	// Last are tasks that end after Tasks have returned, such as the task that updates the
	// data of a server that drains.
	Last []Task
}

// Run runs all tasks until ctx ends or one of them fails. Then it ends Tasks, and Last when
// Tasks have returned. It returns the first error when all have returned.
func (g Group) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	lastCtx, endLast := context.WithCancel(context.WithoutCancel(ctx))
	defer endLast()
	var running sync.WaitGroup
	running.Add(len(g.Tasks))
	for _, task := range g.Tasks {
		group.Go(func() error {
			defer running.Done()
			return task(ctx)
		})
	}
	for _, task := range g.Last {
		group.Go(func() error { return task(lastCtx) })
	}
	group.Go(func() error {
		defer endLast()
		running.Wait()
		return nil
	})
	return group.Wait()
}

// Start runs task in a goroutine. stop ends it, and waits until it has returned. A task
// that is nil does nothing. The task must not fail before ctx ends.
func Start(ctx context.Context, task Task) (stop func()) {
	if task == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = task(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// A Failure is an error that ends a server. It is written in the format of the server's log.
type Failure struct {
	Err    error
	Format string // text or json
}

func (f Failure) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f Failure) Unwrap() error { return f.Err }

// LogFailure writes each of the errors that a Failure in err joins as a line of its server's log. If there is
// none, or the log is text, it returns false and writes nothing.
func LogFailure(w io.Writer, err error) (logged bool) {
	f, ok := errors.AsType[Failure](err)
	if !ok || f.Format != "json" {
		return false
	}
	log := slog.New(slog.NewJSONHandler(w, nil))
	for _, e := range excerpt.Unjoin(f.Err) {
		log.Error("server failed", "error", e.Error())
	}
	return true
}

// interruptGrace is the time that a call has to return by itself after it was interrupted: enough
// to write its error.
const interruptGrace = time.Second

// Interruptible calls f, which must change nothing. If f is still running one second after the end of
// ctx, Interruptible returns: f may read a file without end, such as a named pipe that no program
// writes to, which no context ends. The process must then end.
func Interruptible(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	grace := time.NewTimer(interruptGrace)
	defer grace.Stop()
	select {
	case err := <-done:
		return err
	case <-grace.C:
		return fmt.Errorf("ended before completion: %w", context.Cause(ctx))
	}
}

// A Process is what a server gets from the process that it runs in.
type Process struct {
	Version string // of the binary
	Log     *slog.Logger
	Metrics *prometheus.Registry
	Reload  <-chan os.Signal // receives SIGHUP; nil: never
	Stdout  io.Writer

	problems *problems // of Log; nil: they are not kept
}

// Serve calls run, which runs a server, with a log in a format that is written to stderr. The error of
// run is returned as a Failure.
func Serve(stdout, stderr io.Writer, format, version string, run func(Process) error) error {
	h, err := newHandler(stderr, format)
	if err != nil {
		return err
	}
	defer TuneRuntime(0, 75)()
	return serve(Process{Version: version, Metrics: NewRegistry(version), Stdout: stdout}, h, format, run)
}

// ServeOnNode is Serve for a server that pods wait for and that shares the node with them: its log does
// not block it, and Go's runtime is tuned.
func ServeOnNode(stdout, stderr io.Writer, format, version string, run func(Process) error) error {
	drops, err := newHandler(stderr, format)
	if err != nil {
		return err
	}
	metrics := NewRegistry(version)
	writer := newLogWriter(stderr, drops, metrics)
	defer writer.start()()
	defer TuneRuntime(1, 50)()
	h, _ := newHandler(writer, format)
	return serve(Process{Version: version, Metrics: metrics, Stdout: stdout}, h, format, run)
}

func serve(p Process, h slog.Handler, format string, run func(Process) error) error {
	p.problems = &problems{}
	p.Log = slog.New(slog.NewMultiHandler(h, p.problems.handler()))
	klog.SetSlogLogger(p.Log) // the log of client-go is global
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	// Without this a write to standard output or error that nothing reads any more ends the process. Ignoring the signal
	// would apply to programs that the server starts, too.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	p.Reload = reload
	p.Log.Info("starting", "version", p.Version)
	if err := run(p); err != nil {
		return Failure{Err: err, Format: format}
	}
	return nil
}

// Load loads the configuration of a server that has not started yet. It also returns when ctx ends
// while a file cannot be read.
func Load[C any](ctx context.Context, source Source[C]) (C, error) {
	var loaded, none C
	err := Interruptible(ctx, func() (err error) {
		loaded, err = source.Load()
		return err
	})
	if err != nil {
		return none, err // after an interrupt, the goroutine may still write loaded
	}
	return loaded, nil
}

// pollPeriod is how often configuration files are compared with what was read. They are
// small. Reading them detects changes that inotify on a directory does not: bind mounts,
// replaced links, network file systems.
const pollPeriod = 5 * time.Second

// A Source is the configuration of a server in files that may change. It is an interface so that a process
// without such files, the NRI relay, does not link their packages.
type Source[C any] interface {
	Load() (C, error)
	Changed() bool                        // reports, at a poll, whether Load must be called again
	NeedRestart(running, next C) []string // names the fields that differ, and take effect after a restart
}

// A Reloader applies the configuration of a server again when its files have changed and are
// the same at two polls, and at once on a signal. If the configuration is invalid, the server
// keeps the previous one. If a valid one cannot be applied, for example because a file cannot
// be watched, it is applied again at the next poll.
type Reloader[C any] struct {
	Process // its Reload reloads at once
	Source  Source[C]

	// Apply applies a configuration. If background is not nil, it replaces the background
	// task that runs.
	Apply func(next C) (background Task, err error)

	started C    // the configuration that the server started with
	first   Task // its background task
	success prometheus.Gauge

	unapplied bool   // the last valid configuration could not be applied: retry
	logged    string // the error that is logged once while it repeats
}

// Start applies the configuration with which the server starts, and registers the metrics.
func (r *Reloader[C]) Start(c C) (err error) {
	if r.first, err = r.Apply(c); err != nil {
		return err
	}
	r.started = c
	r.success = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dnsconfigurer_config_last_reload_success",
		Help: "1 if the configuration files were valid when they were last read, 0 if the server keeps a previous configuration.",
	})
	r.success.Set(1)
	r.Metrics.MustRegister(r.success)
	return nil
}

// Run runs the background task, and reloads until ctx ends.
func (r *Reloader[C]) Run(ctx context.Context) error {
	stop := Start(ctx, r.first)
	defer func() { stop() }()
	poll := time.NewTicker(pollPeriod)
	defer poll.Stop()
	r.Source.Changed() // the first poll
	for {
		var background Task
		select {
		case <-ctx.Done():
			return nil
		case <-r.Reload:
			r.logged = ""
			background = r.reload()
		case <-poll.C:
			changed := r.Source.Changed()
			if changed {
				r.logged = ""
			}
			if changed || r.unapplied {
				background = r.reload()
			}
		}
		if background != nil {
			stop()
			stop = Start(ctx, background)
		}
	}
}

// reload reads and applies the configuration. It returns the new background task, if there is
// one.
func (r *Reloader[C]) reload() Task {
	next, err := r.Source.Load()
	var background Task
	r.unapplied = false
	if err == nil {
		background, err = r.Apply(next)
		r.unapplied = err != nil
	}
	if err != nil {
		r.success.Set(0)
		if err.Error() != r.logged {
			r.logged = err.Error()
			for _, e := range excerpt.Unjoin(err) {
				r.Log.Error("invalid configuration, keeping the previous one", "error", e)
			}
		}
		return nil
	}
	r.logged = ""
	r.success.Set(1)
	if fields := r.Source.NeedRestart(r.started, next); fields != nil {
		r.Log.Warn("changed fields take effect after a restart", "fields", fields)
	}
	return background
}
