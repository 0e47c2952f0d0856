// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxfile

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

	// paddingLine is the length of a padding line in bytes.
	paddingLine = 64

	// slot is the size in bytes to which a line is padded, and the alignment of all lines. Old
	// and new text then have a line at the same offset, and a line of at most 63 bytes is in
	// one cache line: a read during a write gets it from one of both texts.
	slot = 64

	// serverSlots is the number of nameserver lines of a resolver; the slots of absent ones are
	// comments, so that the lines after them keep their offsets.
	serverSlots = 3

	originalPrefix = "# before: "
	emptyLine      = "# before:\n"                   // without a blank at its end
	cutPrefix      = "# before, without a newline: " // of the last line of the original text
	digestPrefix   = "# dnsconfigurer: sha256 "
	digestLine     = len(digestPrefix) + 2*sha256.Size + len("\n")
	restoredLine   = "# dnsconfigurer: restored\n"
	unfinishedLine = "# dnsconfigurer: changing\n" // as long as restoredLine: it replaces the end of the last line
)

// Origin is the author of a text.
type Origin int

// The origins.
const (
	Runtime    Origin = iota // the container runtime, or a pod that replaced the whole text
	Written                  // this package
	Changed                  // this package, and then the pod
	Restored                 // the container runtime: this package has written it back
	Unfinished               // this package, which was killed during a write: lines are missing
)

// OriginOf returns the origin of the text of a file.
func OriginOf(text []byte) Origin {
	switch {
	case bytes.HasSuffix(text, []byte("\n"+restoredLine)):
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

// HasBlanks reports whether a line that resolvers read ends with a blank, as this package wrote in
// earlier releases. The nslookup of BusyBox takes the blank for a part of the address.
func HasBlanks(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if !bytes.HasPrefix(line, []byte("#")) && bytes.HasSuffix(line, []byte(" ")) {
			return true
		}
	}
	return false
}

// Original returns the text of the container runtime that the comments of text record. ok is
// false if there is none: text was not written by this package, or not completely, or the original did
// not fit.
func Original(text []byte) (original []byte, ok bool) {
	if OriginOf(text) == Unfinished {
		return nil, false
	}
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

// compose returns the new text of a file: dns in slots, the original text as comments if it
// fits, padding and the digest. The result has at least least bytes.
func compose(dns string, original []byte, least int) ([]byte, error) {
	if strings.Contains(dns, digestPrefix) || hasOriginal(dns) {
		return nil, errors.New("the DNS configuration contains a comment of this program")
	}
	b := appendSlots(nil, dns)
	comments := asComments(original)
	if len(b)+len(comments)+digestLine > MaxSize {
		b = []byte(dns)
	}
	if len(b)+len(comments)+digestLine > MaxSize {
		comments = nil
	}
	b = append(b, comments...)
	size, err := fileSize(len(b)+digestLine, least)
	if err != nil {
		return nil, err
	}
	b = appendPadding(b, size-digestLine-len(b))
	return appendDigest(b, b), nil
}

// composeRestored returns the text of a file with the original text, which is recorded in
// comments, too. The result has at least least bytes.
func composeRestored(original []byte, least int) ([]byte, error) {
	b := slices.Clone(original)
	if !bytes.HasSuffix(b, []byte("\n")) {
		b = append(b, '\n')
	}
	if comments := asComments(original); len(b)+len(comments)+len(restoredLine) <= MaxSize {
		b = append(b, comments...)
	}
	size, err := fileSize(len(b)+len(restoredLine), least)
	if err != nil {
		return nil, err
	}
	b = appendPadding(b, size-len(restoredLine)-len(b))
	return append(b, restoredLine...), nil
}

// fileSize returns the size of a file with n bytes and at least least bytes.
func fileSize(n, least int) (int, error) {
	size := (max(n, least) + sizeStep - 1) / sizeStep * sizeStep
	if size > MaxSize {
		return 0, ErrTooLarge
	}
	return size, nil
}

func hasOriginal(dns string) bool {
	_, ok := Original([]byte(dns))
	return ok
}

// appendSlots appends the lines of dns, each at the start of a slot: servers, others, and search
// domains last, because their line is the one whose length varies.
func appendSlots(b []byte, dns string) []byte {
	var groups [3][]string
	for line := range strings.Lines(dns) {
		group := 1
		switch {
		case strings.HasPrefix(line, "nameserver"):
			group = 0
		case strings.HasPrefix(line, "search"), strings.HasPrefix(line, "domain"):
			group = 2
		}
		groups[group] = append(groups[group], line)
	}
	for _, line := range groups[0] {
		b = appendSlot(b, line)
	}
	for range serverSlots - len(groups[0]) {
		b = appendSlot(b, "#\n")
	}
	for _, line := range slices.Concat(groups[1], groups[2]) {
		b = appendSlot(b, line)
	}
	return b
}

// appendSlot appends line, which ends with a newline, and comments up to the end of its slot. The line
// itself is not padded: the nslookup of BusyBox takes blanks after an address for a part of it.
func appendSlot(b []byte, line string) []byte {
	b = append(b, line...)
	return appendPadding(b, (len(line)+slot-1)/slot*slot-len(line))
}

// asComments returns each line of text as a comment. It returns nil if text has bytes that a
// comment must not have: musl ignores the line after a NUL.
func asComments(text []byte) []byte {
	var b []byte
	for line := range bytes.Lines(text) {
		content, found := bytes.CutSuffix(line, []byte("\n"))
		if bytes.ContainsFunc(content, func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') }) {
			return nil
		}
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

// appendPadding appends n bytes of comment lines.
func appendPadding(b []byte, n int) []byte {
	for n > 0 {
		line := min(n, paddingLine)
		b = append(b, strings.Repeat("#", line-1)...)
		b = append(b, '\n')
		n -= line
	}
	return b
}
