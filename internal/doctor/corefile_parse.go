// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// The limits of a Corefile. A ConfigMap has at most a mebibyte.
const (
	maxText   = 1 << 20
	maxTokens = 100_000
	maxNested = 8 // braces within braces; CoreDNS's plugins have two
)

// Block is a server block: the zones that it serves, and its plugins.
type Block struct {
	Line       int
	Keys       []string // such as .:53 or corp.example:53, in lower case; a snippet is not a block
	Directives []Directive
}

// Directive is one line of a block, with the lines in its braces.
type Directive struct {
	Line int
	Name string
	Args []string
	Body []Directive
}

// Problem is what CoreDNS would not accept.
type Problem struct {
	Line    int
	Message string
}

// Parse returns the blocks of a Corefile. Of a text with problems it returns what it can read.
// Snippets and imports are left out: a block with an import is incomplete.
func Parse(text string) ([]Block, []Problem) {
	if len(text) > maxText {
		return nil, []Problem{{1, fmt.Sprintf("the text has %d bytes, the limit is %d", len(text), maxText)}}
	}
	tokens, problems := scan(text)
	p := &parser{tokens: tokens, problems: problems}
	blocks := p.blocks()
	return blocks, p.problems
}

// Zones returns the zones of the block, each in the form zone. without port.
func (b Block) Zones() (zones []string) {
	for _, key := range b.Keys {
		zone, _ := SplitKey(key)
		zones = append(zones, zone)
	}
	return zones
}

// SplitKey splits the key of a block into its zone, with a final dot, and its port, "53" if
// the key has none. The scheme determines the default port.
func SplitKey(key string) (zone, port string) {
	scheme, rest, ok := strings.Cut(key, "://")
	if !ok {
		scheme, rest = "dns", key
	}
	zone, port = rest, ""
	if i := strings.LastIndexByte(rest, ':'); i >= 0 && !strings.Contains(rest[i:], "/") {
		zone, port = rest[:i], rest[i+1:]
	}
	if port == "" {
		port = "53"
		if scheme == "tls" || scheme == "quic" {
			port = "853"
		} else if scheme == "https" {
			port = "443"
		}
	}
	return strings.TrimSuffix(zone, ".") + ".", port
}

// Find returns the directives of the block with this name.
func (b Block) Find(name string) (list []Directive) { return find(b.Directives, name) }

// Find returns the lines with this first word in the braces of the directive.
func (d Directive) Find(name string) (list []Directive) { return find(d.Body, name) }

func find(directives []Directive, name string) (list []Directive) {
	for _, d := range directives {
		if d.Name == name {
			list = append(list, d)
		}
	}
	return list
}

// String returns the first line of the directive as it is written, without comments.
func (d Directive) String() string {
	return strings.Join(append([]string{d.Name}, d.Args...), " ")
}

type parser struct {
	tokens   []token
	problems []Problem
}

func (p *parser) problem(line int, format string, args ...any) {
	p.problems = append(p.problems, Problem{line, fmt.Sprintf(format, args...)})
}

// line removes the tokens of the next line and returns them.
func (p *parser) line() []token {
	n := 1
	for n < len(p.tokens) && p.tokens[n].line == p.tokens[0].line {
		n++
	}
	line := p.tokens[:n]
	p.tokens = p.tokens[n:]
	return line
}

func (p *parser) blocks() (blocks []Block) {
	for len(p.tokens) > 0 {
		line := p.line()
		// A line that ends with a comma continues.
		for endsWithComma(line) && len(p.tokens) > 0 {
			line = append(slices.Clip(line), p.line()...)
		}
		switch {
		case line[0].isBrace("}"):
			p.problem(line[0].line, "unexpected }")
			continue
		case line[0].text == "import" && !line[len(line)-1].isBrace("{"):
			continue
		}
		b := p.block(line)
		if len(b.Keys) > 0 && !strings.HasPrefix(b.Keys[0], "(") {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// block returns the block that begins with a line.
func (p *parser) block(line []token) Block {
	b := Block{Line: line[0].line}
	opened := line[len(line)-1].isBrace("{")
	if opened {
		line = line[:len(line)-1]
	}
	b.Keys = keys(line)
	if len(line) == 0 {
		p.problem(b.Line, "a block without a zone")
	}
	if opened {
		b.Directives = p.directives(b.Line, 1)
	} else { // a file with a single block may omit its braces
		b.Directives = p.unbraced()
	}
	return b
}

func endsWithComma(line []token) bool {
	last := line[len(line)-1]
	return !last.quoted && strings.HasSuffix(last.text, ",")
}

func keys(line []token) (keys []string) {
	for _, t := range line {
		for key := range strings.SplitSeq(t.text, ",") {
			if key != "" {
				keys = append(keys, strings.ToLower(key))
			}
		}
	}
	return keys
}

// unbraced returns the rest of the text as the directives of one block.
func (p *parser) unbraced() (list []Directive) {
	for len(p.tokens) > 0 {
		if d, ok := p.directive(1); ok {
			list = append(list, d)
		}
	}
	return list
}

// directives returns the lines up to the brace that closes the one in the line opened.
func (p *parser) directives(opened, depth int) (list []Directive) {
	for len(p.tokens) > 0 {
		if p.tokens[0].isBrace("}") {
			line := p.line()
			if len(line) > 1 {
				p.problem(line[0].line, "text after }: %q", line[1].text)
			}
			return list
		}
		if d, ok := p.directive(depth); ok {
			list = append(list, d)
		}
	}
	p.problem(opened, "the block is not closed: } is missing")
	return list
}

// directive returns the next line, with its braces. ok is false for a line that is not one.
func (p *parser) directive(depth int) (d Directive, ok bool) {
	line := p.line()
	last := line[len(line)-1]
	opened := last.isBrace("{")
	if opened {
		line = line[:len(line)-1]
	}
	if len(line) > 0 {
		d = Directive{Line: line[0].line, Name: line[0].text}
		for _, t := range line[1:] {
			if t.isBrace("{") || t.isBrace("}") {
				p.problem(t.line, "%s is not at the end of the line: each directive has a line of its own", t.text)
			}
			d.Args = append(d.Args, t.text)
		}
	}
	if opened {
		if depth == maxNested {
			p.problem(last.line, "braces are nested too deeply")
			p.tokens = nil
			return d, len(line) > 0
		}
		d.Body = p.directives(last.line, depth+1)
	}
	return d, len(line) > 0
}
