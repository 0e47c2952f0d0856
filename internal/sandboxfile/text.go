// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	// MaxSize is the largest file in bytes, one page: a longer write can be interrupted by a
	// signal between two pages.
	MaxSize = 4096

	// sizeStep is the multiple to which the size is rounded up.
	sizeStep = 512

	// paddingLine is the length of a padding line in bytes. musl ignores lines of 255 bytes or
	// more (src/network/resolvconf.c).
	paddingLine = 64

	originalPrefix = "# before: "
	digestPrefix   = "# dnsconfigurer: sha256 "
	digestLine     = len(digestPrefix) + 2*sha256.Size + len("\n")
)

// Origin is the author of a text.
type Origin int

// The origins.
const (
	Runtime Origin = iota // the container runtime, or a pod that replaced the whole text
	Written               // this package
	Changed               // this package, and then the pod
)

// OriginOf returns the origin of the text of a file.
func OriginOf(text []byte) Origin {
	at := bytes.Index(text, []byte(digestPrefix))
	switch {
	case at < 0:
		return Runtime
	case len(text)-at == digestLine && bytes.Equal(text[at:], appendDigest(nil, text[:at])):
		return Written
	}
	return Changed
}

func appendDigest(b, text []byte) []byte {
	sum := sha256.Sum256(text)
	b = append(b, digestPrefix...)
	b = hex.AppendEncode(b, sum[:])
	return append(b, '\n')
}

// compose returns the new text of a file: dns, the original text as comments if it fits, padding
// and the digest. The result is not shorter than the original.
func compose(dns string, original []byte) ([]byte, error) {
	if strings.Contains(dns, digestPrefix) {
		return nil, fmt.Errorf("the DNS configuration contains %q", digestPrefix)
	}
	comments := asComments(original)
	if len(dns)+len(comments)+digestLine > MaxSize {
		comments = nil
	}
	size := max(len(dns)+len(comments)+digestLine, len(original))
	size = (size + sizeStep - 1) / sizeStep * sizeStep
	if size > MaxSize {
		return nil, ErrTooLarge
	}
	b := append(make([]byte, 0, size), dns...)
	b = append(b, comments...)
	b = appendPadding(b, size-digestLine-len(b))
	return appendDigest(b, b), nil
}

// asComments returns each line of text as a comment. It returns nil if text has bytes that a
// comment must not have: musl ignores the line after a NUL.
func asComments(text []byte) []byte {
	var b []byte
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if bytes.ContainsFunc(line, func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') }) {
			return nil
		}
		b = append(b, originalPrefix...)
		b = append(b, line...)
		b = append(b, '\n')
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
		if line > 1 {
			b = append(b, '#')
			b = append(b, bytes.Repeat([]byte{' '}, line-2)...)
		}
		b = append(b, '\n')
		n -= line
	}
	return b
}
