// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

const (
	maxProblems    = 32  // different ones
	maxProblemText = 512 // bytes of a line
)

// problem is a line of the log of level warning or error.
type problem struct {
	last  time.Time // occurrence
	text  string    // without the time
	count int       // occurrences in a row of problems with this text
}

// problems are the last lines of a log of level warning and error. The zero value has none.
type problems struct {
	mu   sync.Mutex
	list []problem // oldest first
}

// handler returns a handler that keeps the problems of a log.
func (p *problems) handler() slog.Handler {
	return slog.NewTextHandler(p, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
}

// Write adds a line. One that is in the list already is counted and becomes the last.
func (p *problems) Write(line []byte) (int, error) {
	added := problem{time.Now(), excerpt.Text(strings.TrimSuffix(string(line), "\n"), maxProblemText), 1}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(p.list, func(q problem) bool { return q.text == added.text }); i >= 0 {
		added.count += p.list[i].count
		p.list = slices.Delete(p.list, i, i+1)
	}
	if len(p.list) == maxProblems {
		p.list = slices.Delete(p.list, 0, 1)
	}
	p.list = append(p.list, added)
	return len(line), nil
}

// newestFirst returns the problems.
func (p *problems) newestFirst() []problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := slices.Clone(p.list)
	slices.Reverse(list)
	return list
}
