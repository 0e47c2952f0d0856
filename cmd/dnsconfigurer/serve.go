// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

// serve loads the configuration and runs a server until SIGINT or SIGTERM.
func serve[C any](cmd *cobra.Command, source *config.Source[C], format func(C) string,
	run func(ctx context.Context, c C, reload <-chan os.Signal, log *slog.Logger) error) error {
	c, err := load(cmd.Context(), source)
	if err != nil {
		return err
	}
	log, err := daemon.NewLogger(cmd.ErrOrStderr(), format(c))
	if err != nil {
		return err
	}
	reload, stop := daemon.Sighup()
	defer stop()
	log.Info("starting", "version", version())
	if err := run(cmd.Context(), c, reload, log); err != nil {
		return daemon.Failure{Err: err, Format: format(c)}
	}
	return nil
}

// load loads the configuration of a server that has not started yet.
func load[C any](ctx context.Context, source *config.Source[C]) (C, error) {
	var loaded, none C
	err := daemon.Interruptible(ctx, func() (err error) {
		loaded, err = source.Load()
		return err
	})
	if err != nil {
		return none, err // after an interrupt, the goroutine may still write loaded
	}
	return loaded, nil
}

// logFormat returns the value of the flag --log-format, "" if cmd has none.
func logFormat(cmd *cobra.Command) string {
	if f := cmd.Flags().Lookup("log-format"); f != nil {
		return f.Value.String()
	}
	return ""
}

// addConfigFlags adds the flags of the fields of a configuration, with their completions.
func addConfigFlags[C any](cmd *cobra.Command, kind *config.Kind[C]) *config.Source[C] {
	source := kind.FromFlags(cmd.Flags(), kind.Defaults())
	completeValues(cmd, source)
	return source
}

// completeValues registers the shell completions of flags that have a fixed set of values.
func completeValues[C any](cmd *cobra.Command, source *config.Source[C]) {
	for flag, values := range source.Completions() {
		usage.Complete(cmd, flag, values...)
	}
}
