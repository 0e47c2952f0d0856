// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/multierr"
)

// serve loads the configuration and runs a server until SIGINT or SIGTERM.
func serve[C any](cmd *cobra.Command, source *config.Source[C], logFormat func(C) string,
	run func(ctx context.Context, c C, reload <-chan os.Signal, log *slog.Logger) error) error {
	c, err := source.Load()
	if err != nil {
		return err
	}
	log, err := daemon.NewLogger(cmd.ErrOrStderr(), logFormat(c))
	if err != nil {
		return err
	}
	reload, stop := daemon.Sighup()
	defer stop()
	log.Info("starting", "version", version())
	if err := run(cmd.Context(), c, reload, log); err != nil {
		return loggedError{err, logFormat(c)}
	}
	return nil
}

// loggedError is an error of a server, which is written in the format of its log.
type loggedError struct {
	error
	format string
}

func (e loggedError) Unwrap() error { return e.error }

// logError writes the error of a server to its log, if it logs in JSON. Otherwise it returns
// false, and writes nothing. Before the configuration is loaded, only the flag is known.
func logError(cmd *cobra.Command, w io.Writer, err error) bool {
	format := ""
	if f := cmd.Flags().Lookup("log-format"); f != nil {
		format = f.Value.String()
	}
	if logged, ok := errors.AsType[loggedError](err); ok {
		format = logged.format
	}
	if format != "json" {
		return false
	}
	log := slog.New(slog.NewJSONHandler(w, nil))
	for _, e := range multierr.Unjoin(unwrapLogged(err)) {
		log.Error("server failed", "error", e.Error())
	}
	return true
}

func unwrapLogged(err error) error {
	if logged, ok := err.(loggedError); ok {
		return logged.error
	}
	return err
}

// completeValues registers the shell completions of flags that have a fixed set of values.
func completeValues[C any](cmd *cobra.Command, source *config.Source[C]) {
	for flag, values := range source.Completions() {
		completeFlag(cmd, flag, values...)
	}
}
