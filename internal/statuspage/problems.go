// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package statuspage

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

// Problem is a line of the log of level warning or error.
type Problem struct {
	Time  time.Time // of the last occurrence
	Level slog.Level
	Text  string // the message and its attributes
	Count int    // occurrences in a row of problems with this text
}

// Problems are the last lines of a log of level warning and error. The zero value has none.
type Problems struct {
	mu   sync.Mutex
	last []Problem // oldest first
}

// List returns the problems, the last one first.
func (p *Problems) List() []Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := slices.Clone(p.last)
	slices.Reverse(list)
	return list
}

// add adds a problem. One that is in the list already is counted and becomes the last.
func (p *Problems) add(t time.Time, level slog.Level, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := 1
	if i := slices.IndexFunc(p.last, func(q Problem) bool { return q.Text == text }); i >= 0 {
		count += p.last[i].Count
		p.last = slices.Delete(p.last, i, i+1)
	}
	if len(p.last) == maxProblems {
		p.last = slices.Delete(p.last, 0, 1)
	}
	p.last = append(p.last, Problem{Time: t, Level: level, Text: text, Count: count})
}

// recorder is a slog.Handler that also keeps problems.
type recorder struct {
	slog.Handler
	problems *Problems
	prefix   string // the attributes of WithAttrs, formatted
	group    string // of attributes, with a dot at the end; "": none
}

// Record returns a handler that passes everything to h, and keeps the last problems.
// [ProblemsOf] returns them.
func Record(h slog.Handler) slog.Handler {
	return recorder{Handler: h, problems: new(Problems)}
}

// ProblemsOf returns the problems that the handler of log has kept, nil if it is not one of
// [Record].
func ProblemsOf(log *slog.Logger) *Problems {
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
