// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
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
	Time  time.Time // of the last occurrence
	Level slog.Level
	Text  string // the message and its attributes
	Count int    // occurrences in a row of problems with this text
}

// problems are the last lines of a log of level warning and error. The zero value has none.
type problems struct {
	mu   sync.Mutex
	last []problem // oldest first
}

// list returns the problems, the last one first.
func (p *problems) list() []problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := slices.Clone(p.last)
	slices.Reverse(last)
	return last
}

// add adds a problem. One that is in the list already is counted and becomes the last.
func (p *problems) add(t time.Time, level slog.Level, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := 1
	if i := slices.IndexFunc(p.last, func(q problem) bool { return q.Text == text }); i >= 0 {
		count += p.last[i].Count
		p.last = slices.Delete(p.last, i, i+1)
	}
	if len(p.last) == maxProblems {
		p.last = slices.Delete(p.last, 0, 1)
	}
	p.last = append(p.last, problem{Time: t, Level: level, Text: text, Count: count})
}

// recorder is a slog.Handler that also keeps problems.
type recorder struct {
	slog.Handler
	problems *problems
	prefix   string // the attributes of WithAttrs, formatted
	group    string // of attributes, with a dot at the end; "": none
}

// recordProblems returns a handler that passes everything to h, and keeps the last problems, which
// problemsOf returns.
func recordProblems(h slog.Handler) slog.Handler {
	return recorder{Handler: h, problems: new(problems)}
}

// problemsOf returns the problems that the handler of log has kept, nil if recordProblems did not make it.
func problemsOf(log *slog.Logger) *problems {
	if r, ok := log.Handler().(recorder); ok {
		return r.problems
	}
	return nil
}

// Enabled reports whether a record of this level is kept or passed on.
func (r recorder) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || r.Handler.Enabled(ctx, level)
}

// Handle keeps the record if it is a problem, and passes it on.
func (r recorder) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelWarn {
		var text strings.Builder
		text.WriteString(record.Message + r.prefix)
		record.Attrs(func(a slog.Attr) bool {
			writeAttr(&text, r.group, a)
			return text.Len() < maxProblemText
		})
		r.problems.add(record.Time, record.Level, excerpt.Text(text.String(), maxProblemText))
	}
	if !r.Handler.Enabled(ctx, record.Level) {
		return nil
	}
	return r.Handler.Handle(ctx, record)
}

// WithAttrs returns a handler whose records have attrs, too.
func (r recorder) WithAttrs(attrs []slog.Attr) slog.Handler {
	var text strings.Builder
	for _, a := range attrs {
		writeAttr(&text, r.group, a)
	}
	r.Handler, r.prefix = r.Handler.WithAttrs(attrs), r.prefix+text.String()
	return r
}

// WithGroup returns a handler whose attributes are in a group.
func (r recorder) WithGroup(name string) slog.Handler {
	r.Handler = r.Handler.WithGroup(name)
	if name != "" {
		r.group += name + "."
	}
	return r
}

func writeAttr(b *strings.Builder, group string, a slog.Attr) {
	if !a.Equal(slog.Attr{}) {
		b.WriteString(" " + group + a.Key + "=" + a.Value.Resolve().String())
	}
}
