// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"io"
	"log/slog"
	"os"

	"k8s.io/klog/v2"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
)

// A Process is what a server gets from the process that it runs in.
type Process struct {
	Log    *slog.Logger
	Writer *LogWriter       // of Log; nil: Log blocks while it is not read
	Reload <-chan os.Signal // receives SIGHUP
}

// Serve calls run, which runs a server, with a log in a format that is written to stderr. The error of
// run is returned as a Failure.
func Serve(stderr io.Writer, format, version string, run func(Process) error) error {
	h, err := newHandler(stderr, format)
	if err != nil {
		return err
	}
	return serve(Process{Log: slog.New(h)}, format, version, run)
}

// ServeOnNode is Serve for a server that pods wait for and that shares the node with them: its log does
// not block it, and Go's runtime is tuned.
func ServeOnNode(stderr io.Writer, format, version string, run func(Process) error) error {
	writer, err := NewLogWriter(stderr, format)
	if err != nil {
		return err
	}
	defer writer.Start()()
	defer TuneRuntime()()
	return serve(Process{Log: writer.Logger(), Writer: writer}, format, version, run)
}

func serve(p Process, format, version string, run func(Process) error) error {
	klog.SetSlogLogger(p.Log) // the log of client-go is global
	reload, stop := sighup()
	defer stop()
	p.Reload = reload
	p.Log.Info("starting", "version", version)
	if err := run(p); err != nil {
		return Failure{Err: err, Format: format}
	}
	return nil
}

// Load loads the configuration of a server that has not started yet. It also returns when ctx ends
// while a file cannot be read.
func Load[C any](ctx context.Context, source *config.Source[C]) (C, error) {
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
