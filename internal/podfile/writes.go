// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package podfile

import (
	"bytes"
	"errors"
	"slices"
	"strings"
)

// span is a line of a file that is not a comment, at an offset.
type span struct {
	at   int
	line []byte // with its newline
}

func (s span) end() int { return s.at + len(s.line) }

// activeLines returns the lines of text that a resolver reads.
func activeLines(text []byte) (active []span) {
	at := 0
	for line := range bytes.Lines(text) {
		if !strings.ContainsRune("#;\n", rune(line[0])) {
			active = append(active, span{at, bytes.TrimSuffix(line, []byte("\n"))})
			last := &active[len(active)-1]
			last.line = append(slices.Clone(last.line), '\n')
		}
		at += len(line)
	}
	return active
}

// place returns offsets from from on for lines, in this order. No line starts or ends where a read of
// musl (248 bytes) or of its stdio (1,024 bytes) ends, and none is on both sides of the end of the old
// file: such a read ends within a line of every text, so that the next one does not return the end of
// another line as a line.
func place(from int, lines []span, oldEnd int) (placed []span, end int) {
	end = from
	for _, l := range lines {
		l.at = end
		for l.at > end && endsRead(l.at) || endsRead(l.end()) || l.at < oldEnd && oldEnd < l.end() {
			l.at++
		}
		placed, end = append(placed, l), l.end()
	}
	return placed, end
}

func endsRead(at int) bool { return at%248 == 0 || at%1024 == 0 }

// layout is a replacement of the text old: its lines kept stay at their offsets, the lines added are where
// it has comments, and tail is at the end of the file.
type layout struct {
	old, tail   []byte
	kept, added []span
	size        int
}

// newLayout returns the smallest layout. lines are before or after those of kept. ok is false if a page is
// too small.
func newLayout(old []byte, kept, lines []span, tail []byte) (l layout, ok bool) {
	from, to := 0, 0
	if len(kept) > 0 {
		from, to = kept[0].at, kept[len(kept)-1].end()
	}
	added, end := place(0, lines, len(old))
	if end <= from {
		end = to
	} else {
		added, end = place(to, lines, len(old))
	}
	size := roundUp(len(old))
	if size < end+len(tail) || size > len(old) { // the tail is not on both sides of the end of the old file
		size = roundUp(max(end, len(old)) + len(tail))
	}
	return layout{old, tail, kept, added, size}, size <= MaxSize
}

func roundUp(n int) int { return (n + sizeStep - 1) / sizeStep * sizeStep }

// writes returns the texts to write one after another. A reader may get any mixture of the bytes of two
// of them, or a part of each. No mixture has a line that neither the old nor the new text has: bytes
// change only within comments, and lines appear and disappear by their first byte. The lines of the old
// text stay until those of the new one are there. All texts but the last one end with unfinishedLine.
func (l layout) writes() (texts [][]byte) {
	text := bytes.Repeat([]byte{'#'}, l.size)
	put := func(spans []span, comment bool) {
		for _, s := range spans {
			if s.at > 0 {
				text[s.at-1] = '\n'
			}
			copy(text[s.at:], s.line)
			if comment {
				text[s.at] = '#'
			}
		}
	}
	add := func(spans []span, comment bool) {
		put(spans, comment)
		copy(text[l.size-len(unfinishedLine):], unfinishedLine)
		texts = append(texts, slices.Clone(text))
	}
	tail := span{l.size - len(l.tail), l.tail}
	comments := l.tail[:bytes.LastIndexByte(l.tail[:len(l.tail)-1], '\n')+1]
	if tail.at >= len(l.old) || bytes.HasPrefix(l.old[tail.at-1:], slices.Concat([]byte("\n"), comments)) {
		put([]span{tail}, false)
	}
	add(l.kept, false)
	put([]span{tail}, false)
	add(l.added, true)
	add(l.added, false)
	add(l.kept, true)
	return texts
}

var (
	// ErrForeign is the error for a path that is not the resolv.conf of the sandbox in one of
	// the runtime's directories, such as a volume that the pod mounts instead.
	ErrForeign = errors.New("not the runtime's file of the sandbox")

	// ErrTooLarge is the error for a text or a file that does not fit into MaxSize.
	ErrTooLarge = errors.New("larger than one page")

	// ErrChanged is the error of Replace for a file that does not have the expected text.
	ErrChanged = errors.New("the file has changed")
)
