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
	return run(cmd.Context(), c, reload, log)
}

// completeValues registers the shell completions of flags that have a fixed set of values.
func completeValues[C any](cmd *cobra.Command, source *config.Source[C]) {
	for flag, values := range source.Completions() {
		completeFlag(cmd, flag, values...)
	}
}
