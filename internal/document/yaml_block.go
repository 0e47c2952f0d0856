// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	stdjson "encoding/json"
	"strings"
	"unicode"
)

// blockJSON converts YAML as kubectl prints it: mappings and lists in block style, scalars and flow collections on one
// line, and literal blocks, in printable ASCII. ok is false for all other text, and for text with an error: libraryJSON
// reads it. FuzzJSON_Block compares the results.
//
// libraryJSON takes 4.4 s for the 5,000 pods of a cluster, 18 MB, and blockJSON 0.7 s.
func blockJSON(text []byte) (js []byte, ok bool) {
	for _, c := range text {
		if (c < ' ' || c > '~') && c != '\n' {
			return nil, false
		}
	}
	if len(text) == 0 || text[len(text)-1] != '\n' { // a literal block would have no line break at its end
		return nil, false
	}
	r := blockReader{rest: string(text)}
	r.skipBlank()
	value, ok := r.node()
	if !ok || r.column >= 0 {
		return nil, false
	}
	js, err := stdjson.Marshal(value)
	return js, err == nil
}

// blockReader reads the nodes of a document in order.
type blockReader struct {
	rest   string // begins with the next node, without its indentation
	column int    // of rest, from 0; -1 at the end of the document
}

// maxColumn limits the depth of nodes, and so of the recursion.
const maxColumn = 200

// skipBlank moves to the first line of rest that is not blank.
func (r *blockReader) skipBlank() {
	for r.rest != "" {
		trimmed := strings.TrimLeft(r.rest, " ")
		if r.column = len(r.rest) - len(trimmed); trimmed[0] != '\n' {
			r.rest = trimmed
			return
		}
		r.rest = trimmed[1:]
	}
	r.column = -1
}

// line returns the rest of the line without the blanks at its end.
func (r *blockReader) line() string {
	line, _, _ := strings.Cut(r.rest, "\n")
	return strings.TrimRight(line, " ")
}

// nextLine moves to the next line that is not blank.
func (r *blockReader) nextLine() {
	_, r.rest, _ = strings.Cut(r.rest, "\n")
	r.skipBlank()
}

// node reads a list or a mapping.
func (r *blockReader) node() (value any, ok bool) {
	switch {
	case r.column < 0 || r.column > maxColumn:
		return nil, false
	case strings.HasPrefix(r.rest, "- "):
		return r.list()
	}
	return r.mapping()
}

func (r *blockReader) list() (list []any, ok bool) {
	column := r.column
	for r.column == column && strings.HasPrefix(r.rest, "- ") {
		var item any
		text := strings.TrimLeft(r.line()[1:], " ")
		if _, _, isMapping := cutKey(text); isMapping || strings.HasPrefix(text, "- ") {
			trimmed := strings.TrimLeft(r.rest[1:], " ")
			r.rest, r.column = trimmed, column+len(r.rest)-len(trimmed)
			item, ok = r.node()
		} else {
			item, ok = r.value(text, column, false)
		}
		if !ok {
			return nil, false
		}
		list = append(list, item)
	}
	return list, r.column <= column
}

func (r *blockReader) mapping() (members map[string]any, ok bool) {
	column := r.column
	members = map[string]any{}
	for r.column == column {
		key, text, ok := cutKey(r.line())
		if _, duplicate := members[key]; !ok || duplicate {
			return nil, false
		}
		if members[key], ok = r.value(text, column, true); !ok {
			return nil, false
		}
	}
	return members, r.column < column
}

// value reads the value that begins with text, in a mapping or a list at column, to the end of its last line.
func (r *blockReader) value(text string, column int, inMapping bool) (value any, ok bool) {
	if text == "|" || text == "|-" {
		return r.literal(column, text == "|")
	}
	r.nextLine()
	switch {
	case text == "" && (r.column > column || inMapping && r.column == column && strings.HasPrefix(r.rest, "- ")):
		return r.node()
	case text == "":
		return nil, true
	case r.column > column: // the value continues
		return nil, false
	}
	return scalar(text)
}

// literal reads a literal block in a mapping or a list at column. clip keeps one line break at its end.
func (r *blockReader) literal(column int, clip bool) (value any, ok bool) {
	_, r.rest, _ = strings.Cut(r.rest, "\n")
	indent := len(r.rest) - len(strings.TrimLeft(r.rest, " "))
	if indent <= column || strings.HasPrefix(r.rest[indent:], "\n") {
		return nil, false
	}
	var text strings.Builder
	for line := range strings.Lines(r.rest) {
		content := strings.TrimLeft(line, " ")
		if content != "\n" && len(line)-len(content) < indent {
			break
		}
		r.rest = r.rest[len(line):]
		text.WriteString(line[min(indent, len(line)-1):])
	}
	r.skipBlank()
	literal := strings.TrimRight(text.String(), "\n")
	if clip {
		literal += "\n"
	}
	return literal, true
}

// maxKey is less than the 1,024 characters of a key that YAML permits without the indicator "?".
const maxKey = 1000

// cutKey returns the key at the start of a line, and what follows it.
func cutKey(line string) (key, rest string, ok bool) {
	key, rest, ok = strings.Cut(line, ": ")
	if !ok {
		key, ok = strings.CutSuffix(line, ":")
	}
	if ok = ok && len(key) <= maxKey && (key == "." || isPlain(key)); !ok {
		return "", "", false
	}
	return key, strings.TrimLeft(rest, " "), true
}

// scalar returns the value of a scalar or a flow collection on one line.
func scalar(text string) (value any, ok bool) {
	first := text[0]
	quoted := first == '"' || first == '\''
	switch {
	case isPlain(text):
		return text, true
	case text == "true" || text == "false" || text == "null" || text == "{}" || text == "[]" || isWhole(text):
		return stdjson.RawMessage(text), true
	case quoted && len(text) > 1 && strings.IndexByte(text[1:], first) == len(text)-2 && !strings.Contains(text, `\`):
		return text[1 : len(text)-1], true
	case quoted || first == '{' || first == '[' || isDigit(first):
		js, err := libraryJSON([]byte(text), 1)
		isMapping := strings.HasPrefix(string(js), "{") // `"a": b` is a mapping only in a document of its own
		return stdjson.RawMessage(js), err == nil && isMapping == (first == '{')
	}
	return nil, false
}

// isPlain reports whether text is a string that YAML permits without quotes, such as a name, a path or an IP address.
func isPlain(text string) bool {
	switch strings.ToLower(text) {
	case "", "y", "yes", "n", "no", "on", "off", "true", "false", "null": // of YAML 1.1
		return false
	}
	if strings.Contains(text, "#") || strings.Contains(text, ": ") || strings.HasSuffix(text, ":") || strings.HasSuffix(text, " ") {
		return false
	}
	name := strings.TrimLeft(text, "-/_") // such as --verbose
	return name != "" && (unicode.IsLetter(rune(name[0])) || isDigit(text[0]) && !isNumeric(text))
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isWhole reports whether text is a whole number that JSON writes in the same way.
func isWhole(text string) bool {
	return text == "0" || text[0] != '0' && len(text) < 19 && strings.Trim(text, "0123456789") == ""
}

// isNumeric reports whether text, which begins with a digit, may be a number of YAML 1.1, unlike 100m or 192.0.2.1.
func isNumeric(text string) bool {
	if len(text) > 1 && text[0] == '0' && strings.ContainsRune("bBoOxX", rune(text[1])) {
		return true
	}
	return strings.Trim(text, "0123456789_.eE+-") == "" && strings.Count(text, ".") < 2
}
