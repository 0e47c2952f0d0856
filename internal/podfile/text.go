// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package podfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
)

const (
	// MaxSize is the largest file in bytes, one page: a longer write can be interrupted by a
	// signal between two pages.
	MaxSize = 4096

	// sizeStep is the multiple to which the size is rounded up.
	sizeStep = 512

	originalPrefix = "# before: "
	emptyLine      = "# before:\n"                   // without a blank at its end
	cutPrefix      = "# before, without a newline: " // of the last line of the original text
	digestPrefix   = "# dnsconfigurer: sha256 "
	digestLine     = len(digestPrefix) + 2*sha256.Size + len("\n")
	restoredLine   = "# dnsconfigurer: restored\n"
	unfinishedLine = "# dnsconfigurer: changing\n"
)

// Origin is the author of a text.
type Origin int

// The origins.
const (
	Runtime    Origin = iota // the container runtime, or a pod that replaced the whole text
	Written                  // this package
	Changed                  // this package, and then the pod
	Restored                 // the container runtime: this package has written it back
	Unfinished               // this package, which was killed during a write: lines of two texts
)

// OriginOf returns the origin of the text of a file.
func OriginOf(text []byte) Origin {
	switch {
	case bytes.HasSuffix(text, []byte(restoredLine)):
		return Restored
	case bytes.HasSuffix(text, []byte(unfinishedLine)):
		return Unfinished
	}
	at := bytes.Index(text, []byte(digestPrefix))
	switch {
	case at < 0:
		return Runtime
	case len(text)-at == digestLine && bytes.Equal(text[at:], appendDigest(nil, text[:at])):
		return Written
	}
	return Changed
}

// Original returns the text of the container runtime that the comments of text record. ok is
// false if there is none: text was not written by this package, or the original did not fit.
func Original(text []byte) (original []byte, ok bool) {
	for line := range bytes.Lines(text) {
		if string(line) == emptyLine {
			original, ok = append(original, '\n'), true
		} else if rest, found := bytes.CutPrefix(line, []byte(originalPrefix)); found {
			original, ok = append(original, rest...), true
		} else if rest, found := bytes.CutPrefix(line, []byte(cutPrefix)); found {
			original, ok = append(original, bytes.TrimSuffix(rest, []byte("\n"))...), true
		}
	}
	return original, ok
}

func appendDigest(b, text []byte) []byte {
	sum := sha256.Sum256(text)
	b = append(b, digestPrefix...)
	b = hex.AppendEncode(b, sum[:])
	return append(b, '\n')
}

// compose returns the texts that replace old by dns one after another: see [layout.writes]. The last one
// has the original text as comments if it fits, and the digest, or restoredLine if it is not that of a decision.
func compose(dns, original, old []byte, restored bool) ([][]byte, error) {
	if _, ok := Original(dns); !restored && (ok || bytes.Contains(dns, []byte(digestPrefix))) {
		return nil, errors.New("the DNS configuration contains a comment of this program")
	}
	texts, err := arrange(old, dns, asComments(original))
	if err != nil {
		return nil, err
	}
	last := texts[len(texts)-1]
	if restored {
		copy(last[len(last)-len(restoredLine):], restoredLine)
	} else {
		copy(last[len(last)-digestLine:], appendDigest(nil, last[:len(last)-digestLine]))
	}
	return texts, nil
}

// arrange returns the texts that replace the lines of old by those of text. At the end of the file are
// comments, and one with the size of the digest. If a page is too small, the lines of old do not stay until
// those of text are there, and then the comments are left out.
func arrange(old, text, comments []byte) ([][]byte, error) {
	lines, kept := activeLines(text), activeLines(old)
	if !isPlain(old) || slices.ContainsFunc(kept, isMisleading) {
		kept = nil // musl ignores the line after a comment with a NUL
	}
	end := append(bytes.Repeat([]byte{'#'}, digestLine-1), '\n')
	for _, try := range []struct {
		kept     []span
		comments []byte
	}{{kept, comments}, {nil, comments}, {nil, nil}} {
		if l, ok := newLayout(old, try.kept, lines, slices.Concat(try.comments, end)); ok {
			return l.writes(), nil
		}
	}
	return nil, ErrTooLarge
}

// isMisleading reports whether a line could be one of the comments of this program when its first byte is #.
func isMisleading(s span) bool {
	return bytes.HasPrefix(s.line[1:], []byte(" ")) || bytes.Contains(s.line, []byte(digestPrefix))
}

// isPlain reports whether text is printable ASCII.
func isPlain(text []byte) bool {
	return !bytes.ContainsFunc(text, func(r rune) bool { return r != '\t' && r != '\n' && (r < ' ' || r > '~') })
}

// asComments returns each line of text as a comment. It returns nil if text has bytes that a
// comment must not have: musl ignores the line after a NUL.
func asComments(text []byte) []byte {
	if !isPlain(text) {
		return nil
	}
	var b []byte
	for line := range bytes.Lines(text) {
		content, found := bytes.CutSuffix(line, []byte("\n"))
		switch {
		case !found:
			b = append(b, cutPrefix...)
		case len(content) == 0:
			b = append(b, emptyLine...)
			continue
		default:
			b = append(b, originalPrefix...)
		}
		b = append(append(b, content...), '\n')
	}
	if bytes.Contains(b, []byte(digestPrefix)) {
		return nil
	}
	return b
}

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
