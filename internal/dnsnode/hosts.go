// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
)

// hosts is a validated HostsConfiguration. The zero value has no names.
type hosts struct {
	entries []string
	file    string
	ttl     uint32
}

// fileInterval is how often files of hosts and zones are read. CoreDNS reads hosts as often.
const fileInterval = 5 * time.Second

// readFile returns the text of a file; "": there is none.
func readFile(path string) (text string, err error) {
	if path == "" {
		return "", nil
	}
	b, err := atomicfile.ReadRegular(path, config.MaxFile)
	return string(b), err
}

// parse returns the names of the entries and of the file, whose invalid lines it logs and skips.
func (h hosts) parse(text string, err error, log *slog.Logger) *dnsserver.Hosts {
	parsed := &dnsserver.Hosts{TTL: h.ttl}
	for _, entry := range h.entries {
		_ = parsed.AddLine(entry) // it is validated
	}
	if err := errors.Join(err, parsed.Add(text)); err != nil {
		log.Warn("cannot use all of the hosts file", "file", h.file, "error", excerpt.Text(err.Error(), maxHostsError))
	}
	return parsed
}

// maxHostsError bounds the errors of a hosts file in the log, in characters.
const maxHostsError = 500

// watchFile calls set with the text of a file when it changes, until ctx ends. While a file cannot be read, the
// previous text counts.
func watchFile(ctx context.Context, path, text string, set func(text string), log *slog.Logger) error {
	if path == "" {
		return nil
	}
	tick := time.NewTicker(fileInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		next, err := readFile(path)
		if err != nil || next == text {
			continue
		}
		text = next
		set(text)
		log.Info("changed file applied", "file", path)
	}
}
