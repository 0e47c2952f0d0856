// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"io"
	"log/slog"

	"github.com/dnsconfigurer/dnsconfigurer/internal/multierr"
)

// A Failure is an error that ends a server. It is written in the format of the server's log.
type Failure struct {
	Err    error
	Format string // text or json
}

func (f Failure) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f Failure) Unwrap() error { return f.Err }

// LogFailure writes each of the errors that err joins as a line of a log in JSON. If the log has
// another format, it returns false and writes nothing. The format is that of the Failure in err, or
// format if err has none: before the configuration is loaded, only the flag is known.
func LogFailure(w io.Writer, format string, err error) (logged bool) {
	if f, ok := errors.AsType[Failure](err); ok {
		err, format = f.Err, f.Format
	}
	if format != "json" {
		return false
	}
	log := slog.New(slog.NewJSONHandler(w, nil))
	for _, e := range multierr.Unjoin(err) {
		log.Error("server failed", "error", e.Error())
	}
	return true
}
