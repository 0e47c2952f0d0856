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

// hostsInterval is how often the file is read, as by CoreDNS.
const hostsInterval = 5 * time.Second

// read returns the text of the file.
func (h hosts) read() (text string, err error) {
	if h.file == "" {
		return "", nil
	}
	b, err := atomicfile.ReadRegular(h.file, config.MaxFile)
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

// watch calls set with the text of the file when it changes, until ctx ends. A file that cannot be read keeps its
// previous names.
func (h hosts) watch(ctx context.Context, text string, set func(text string), log *slog.Logger) error {
	if h.file == "" {
		return nil
	}
	tick := time.NewTicker(hostsInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		next, err := h.read()
		if err != nil || next == text {
			continue
		}
		text = next
		set(text)
		log.Info("hosts file applied", "file", h.file)
	}
}
