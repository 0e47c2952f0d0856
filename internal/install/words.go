// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"strings"
)

// A span is a word of a line: text is its value, from and to are its place in the line, with
// the quotes.
type span struct {
	text     string
	from, to int
}

var errQuote = errors.New("unbalanced quote")

// splitWords splits a line into words as systemd does (systemd.syntax(7), Quoting). Escape
// sequences are kept.
func splitWords(line string) ([]span, error) {
	var words []span
	for at := 0; ; {
		at += len(line[at:]) - len(strings.TrimLeft(line[at:], " \t"))
		if at == len(line) {
			return words, nil
		}
		word, err := nextWord(line, at)
		if err != nil {
			return nil, err
		}
		words = append(words, word)
		at = word.to
	}
}

// nextWord returns the word that begins at from.
func nextWord(line string, from int) (span, error) {
	var text strings.Builder
	quote := byte(0)
	for i := from; i < len(line); i++ {
		switch c := line[i]; {
		case quote == 0 && (c == ' ' || c == '\t'):
			return span{text.String(), from, i}, nil
		case c == '\\' && i+1 < len(line):
			text.WriteString(line[i : i+2])
			i++
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case c == quote:
			quote = 0
		default:
			text.WriteByte(c)
		}
	}
	if quote != 0 {
		return span{}, errQuote
	}
	return span{text.String(), from, len(line)}, nil
}
