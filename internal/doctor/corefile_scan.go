// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"strings"
	"unicode"
)

// token is a word of the text, or a brace.
type token struct {
	line   int
	text   string
	quoted bool
}

func (t token) isBrace(brace string) bool { return t.text == brace && !t.quoted }

// scanner splits a text as CoreDNS's lexer does: at white space; quotes keep it; in them only
// \" is an escape; elsewhere # begins a comment, even within a word.
type scanner struct {
	tokens []token
	word   strings.Builder
	start  int // the line of word

	inQuotes, inComment, escaped bool
}

func scan(text string) ([]token, []Problem) {
	s, line := &scanner{}, 1
	for _, r := range text {
		if len(s.tokens) == maxTokens {
			return s.tokens, []Problem{{line, "the text has too many words"}}
		}
		s.read(r, line)
		if r == '\n' {
			line++
		}
	}
	if s.inQuotes {
		s.end(true)
		return s.tokens, []Problem{{s.start, `a quotation is not closed: " is missing`}}
	}
	s.end(false)
	return s.tokens, nil
}

func (s *scanner) read(r rune, line int) {
	switch {
	case s.inQuotes:
		s.readQuoted(r)
	case s.inComment:
		s.inComment = r != '\n'
	case unicode.IsSpace(r):
		s.end(false)
	case r == '#':
		s.end(false)
		s.inComment = true
	case r == '"' && s.word.Len() == 0:
		s.inQuotes, s.start = true, line
	default:
		if s.word.Len() == 0 {
			s.start = line
		}
		s.word.WriteRune(r)
	}
}

func (s *scanner) readQuoted(r rune) {
	switch {
	case s.escaped:
		if r != '"' {
			s.word.WriteByte('\\')
		}
		s.word.WriteRune(r)
		s.escaped = false
	case r == '\\':
		s.escaped = true
	case r == '"':
		s.end(true)
		s.inQuotes = false
	default:
		s.word.WriteRune(r)
	}
}

// end adds the word to the tokens.
func (s *scanner) end(quoted bool) {
	if s.word.Len() > 0 || quoted {
		s.tokens = append(s.tokens, token{s.start, s.word.String(), quoted})
	}
	s.word.Reset()
}
