// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// A variable is an environment variable of a unit.
type variable struct {
	value string
	at    place // of the assignment
}

// A word is an argument of a command.
type word struct {
	text     string
	at       place
	variable string // that contains it; "": it is in ExecStart=
}

// command is the command line of a unit.
type command struct {
	at        place // of ExecStart=
	words     []word
	variables map[string]variable
	ends      map[string]int // the number of words up to the last one of a variable, for $NAME as a word of its own
}

var (
	// variableWord matches a word that systemd replaces by the words of a variable.
	variableWord = regexp.MustCompile(`^\$([A-Za-z_][A-Za-z0-9_]*)$`)
	variablePart = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
)

// readCommand returns the command line of a unit (systemd.service(5), Command Lines).
func readCommand(r Root, u unit) (command, error) {
	c := command{variables: map[string]variable{}, ends: map[string]int{}}
	for _, s := range u.environment {
		items, err := splitWords(s.value)
		if err != nil {
			return c, fmt.Errorf("%s: Environment: %w", s.place, err)
		}
		for _, item := range items {
			if name, value, found := strings.Cut(item, "="); found {
				c.variables[name] = variable{value, s.place}
			}
		}
	}
	for _, s := range u.environmentFiles {
		if err := c.readEnvironment(r, s); err != nil {
			return c, err
		}
	}
	c.at = u.exec.place
	list, err := splitWords(strings.TrimLeft(u.exec.value, "-@:+!|"))
	if err != nil {
		return c, fmt.Errorf("%s: ExecStart: %w", u.exec.place, err)
	}
	for _, w := range list {
		if err := c.expand(w, u.exec.place); err != nil {
			return c, err
		}
	}
	return c, nil
}

// readEnvironment adds the variables of EnvironmentFile=. A later file wins.
func (c *command) readEnvironment(r Root, s setting) error {
	path, optional := strings.CutPrefix(s.value, "-")
	text, err := r.read(path)
	if errors.Is(err, fs.ErrNotExist) && optional {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: EnvironmentFile: %w", s.place, err)
	}
	for i, line := range strings.Split(text, "\n") {
		name, value, found := strings.Cut(line, "=")
		if !found || isComment(line) {
			continue
		}
		c.variables[strings.TrimSpace(name)] = variable{unquote(strings.TrimSpace(value)), place{path, i + 1}}
	}
	return nil
}

// unquote removes the quotes around a value.
func unquote(value string) string {
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		return value[1 : n-1]
	}
	return value
}

// expand adds the words of one word of ExecStart=.
func (c *command) expand(text string, at place) error {
	m := variableWord.FindStringSubmatch(text)
	if m == nil {
		text = variablePart.ReplaceAllStringFunc(text, func(part string) string { return c.variables[part[2:len(part)-1]].value })
		c.words = append(c.words, word{text, at, ""})
		return nil
	}
	v := c.variables[m[1]]
	list, err := splitWords(v.value)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", v.at, m[1], err)
	}
	for _, w := range list {
		c.words = append(c.words, word{w, v.at, m[1]})
	}
	c.ends[m[1]] = len(c.words)
	return nil
}

// flag returns the value of a flag: the last one counts. index is that of its word, -1 if the
// flag is not set.
func (c *command) flag(name string) (value string, index int) {
	index = -1
	for i, w := range c.words {
		switch flag, text, found := strings.Cut(strings.TrimLeft(w.text, "-"), "="); {
		case !strings.HasPrefix(w.text, "-") || flag != name:
		case found:
			value, index = text, i
		case i+1 < len(c.words):
			value, index = c.words[i+1].text, i
		}
	}
	return value, index
}

var errQuote = errors.New("unbalanced quote")

// splitWords splits a line into words as systemd does (systemd.syntax(7), Quoting). Escape
// sequences are kept.
func splitWords(line string) (words []string, err error) {
	var text strings.Builder
	quote, begun := byte(0), false
	for i := 0; i < len(line); i++ {
		c := line[i]
		if quote == 0 && (c == ' ' || c == '\t') {
			if begun {
				words = append(words, text.String())
				text.Reset()
				begun = false
			}
			continue
		}
		begun = true
		switch {
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
		return nil, errQuote
	}
	if begun {
		words = append(words, text.String())
	}
	return words, nil
}
