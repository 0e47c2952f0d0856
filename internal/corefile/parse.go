// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/coredns/caddy/caddyfile"
)

// The limits of a Corefile. A ConfigMap has at most a mebibyte.
const (
	maxText   = 1 << 20
	maxWords  = 100_000 // also after the expansion of snippets
	maxNested = 8       // braces within braces; CoreDNS's plugins have two
	maxFiles  = 256     // imported ones, each as often as it is imported
)

// Block is a server block: the zones that it serves, and its plugins.
type Block struct {
	Line       int
	Keys       []string // such as .:53 or corp.example:53, in lower case; a snippet is not a block
	Directives []Directive
	File       string
}

// Directive is one line of a block, with the lines in its braces.
type Directive struct {
	Line int
	Name string
	Args []string
	Body []Directive
	File string
}

// Problem is what CoreDNS would not accept.
type Problem struct {
	Line    int
	Message string
	File    string
}

// File is a text with its name.
type File struct{ Name, Text string }

// Source is what a Corefile refers to.
type Source struct {
	// Import returns the files that the file named from imports by a pattern, in the order of their names. A pattern
	// without * names one file, whose absence is an error. nil: imports of files stay, and a block with one is incomplete.
	Import func(from, pattern string) ([]File, error)

	// Variable returns the value of a variable, written {$NAME} or {%NAME%}. nil: variables stay.
	Variable func(name string) (value string, ok bool)
}

// Parse returns the blocks of a Corefile, without imported files. Of a text with problems it returns what it can read.
func Parse(text string) ([]Block, []Problem) { return Source{}.Parse(File{Text: text}) }

// Parse returns the blocks of a Corefile with all that it refers to.
func (s Source) Parse(f File) ([]Block, []Problem) {
	p := &parser{Source: s, snippets: map[string][]Directive{}, unset: map[string]bool{}}
	p.scan(f)
	return p.blocks(), p.problems
}

// Zones returns the zones of the block, each in the form zone. without port.
func (b Block) Zones() (zones []string) {
	for _, key := range b.Keys {
		zone, _ := SplitKey(key)
		zones = append(zones, zone)
	}
	return zones
}

// SplitKey splits the key of a block into its zone, with a final dot, and its port. The scheme determines the
// default port.
func SplitKey(key string) (zone, port string) {
	scheme, rest, ok := strings.Cut(key, "://")
	if !ok {
		scheme, rest = "dns", key
	}
	zone, port = rest, map[string]string{"tls": "853", "quic": "853", "https": "443"}[scheme]
	if port == "" {
		port = "53"
	}
	if i := strings.LastIndexByte(rest, ':'); i >= 0 && !strings.Contains(rest[i:], "/") {
		zone, port = rest[:i], rest[i+1:]
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

// line is a line of the text up to a brace: { ends it, and } is a line of its own.
type line struct {
	file          string
	number        int
	words         []string
	opens, closes bool
}

type parser struct {
	Source
	lines    []line // that were not read yet
	snippets map[string][]Directive
	expanded int // directives of snippets
	words    int // of all files
	size     int // of all files, in bytes
	imports  int
	unset    map[string]bool // variables without a value, whose first place is a problem
	problems []Problem
}

func (p *parser) problem(at line, format string, args ...any) {
	p.problems = append(p.problems, Problem{at.number, fmt.Sprintf(format, args...), at.file})
}

// scan puts the lines of a file before those that were not read yet, with the lexer of CoreDNS. Its parser is not used:
// it reads imported files and variables of this machine.
func (p *parser) scan(f File) {
	if p.size += len(f.Text); p.size > maxText {
		p.problem(line{file: f.Name, number: 1}, "the text has %d bytes, the limit is %d", p.size, maxText)
		return
	}
	rest := p.lines
	p.lines = nil
	d := caddyfile.NewDispenser("Corefile", strings.NewReader(f.Text))
	for d.Next() && p.words <= maxWords {
		l := line{file: f.Name, number: d.Line()}
		for isLine := true; isLine; isLine = d.NextArg() {
			if p.words++; p.words > maxWords {
				p.problem(line{file: f.Name, number: d.Line()}, "the text has too many words")
				break
			}
			l = p.addWord(l, d.Val(), d.Line())
		}
		p.addLine(l)
	}
	p.lines = append(p.lines, rest...)
}

// addWord adds a word to a line, and returns the line of the next word.
func (p *parser) addWord(l line, word string, number int) line {
	next := line{file: l.file, number: number}
	switch word {
	case "{":
		l.opens = true
	case "}":
		if len(l.words) > 0 {
			p.problem(next, "} is not on a line of its own: %s }", strings.Join(l.words, " "))
		}
		p.addLine(l)
		l = next
		l.closes = true
	default:
		l.words = append(l.words, p.expand(next, word))
		return l
	}
	p.addLine(l)
	return next
}

var variable = regexp.MustCompile(`\{\$[^}]*\}|\{%[^%]*%\}|__PILLAR__\w+__`)

// expand replaces the variables in a word.
func (p *parser) expand(at line, word string) string {
	if p.Variable == nil {
		return word
	}
	return variable.ReplaceAllStringFunc(word, func(text string) string {
		name := strings.Trim(text, "{$%}")
		value, ok := p.Variable(name)
		if !ok && !p.unset[name] {
			p.unset[name] = true
			p.problem(at, "the variable %s has no value here: add --set %s=VALUE, with the value in the container of CoreDNS", name, name)
		}
		return value
	})
}

// importFiles replaces a line by the files that it imports. It reports whether the line is an import of files.
func (p *parser) importFiles(l line) bool {
	if p.Import == nil || len(l.words) < 2 || l.words[0] != "import" || l.opens {
		return false
	}
	if _, ok := p.snippets[strings.Join(l.words[1:], " ")]; ok {
		return false
	}
	files, err := p.Import(l.file, l.words[1])
	if p.imports += len(files); p.imports > maxFiles {
		err, files = fmt.Errorf("more than %d imported files", maxFiles), nil
	}
	if err != nil {
		p.problem(l, "import %s: %v", l.words[1], err)
	}
	for i := len(files) - 1; i >= 0; i-- {
		p.scan(files[i])
	}
	return true
}

func (p *parser) addLine(l line) {
	if l.opens || l.closes || len(l.words) > 0 {
		p.lines = append(p.lines, l)
	}
}

// next removes a line and returns it.
func (p *parser) next() line {
	l := p.lines[0]
	p.lines = p.lines[1:]
	return l
}

func (p *parser) blocks() (blocks []Block) {
	for len(p.lines) > 0 {
		l := p.next()
		if p.importFiles(l) || len(l.words) > 0 && l.words[0] == "import" && !l.opens {
			continue
		}
		l = p.blockLine(l)
		b := Block{Line: l.number, Keys: keys(l.words), File: l.file}
		b.Directives = p.body(l, 1)
		switch {
		case len(b.Keys) == 0:
			p.problem(l, "a block without a zone")
		case strings.HasPrefix(b.Keys[0], "(") && strings.HasSuffix(b.Keys[0], ")"):
			p.snippets[strings.Trim(b.Keys[0], "()")] = b.Directives
		default:
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// blockLine adds to the first line of a block what belongs to it: the zones behind a comma, and a brace on the next
// line. CoreDNS takes } for a zone.
func (p *parser) blockLine(l line) line {
	if l.closes {
		l.words = []string{"}"}
	}
	for len(l.words) > 0 && strings.HasSuffix(l.words[len(l.words)-1], ",") {
		if l.opens || len(p.lines) == 0 {
			p.problem(l, "a zone is missing behind the comma")
			return l
		}
		more := p.next()
		l.words, l.opens = append(l.words, more.words...), more.opens
	}
	if !l.opens && len(p.lines) > 0 && p.lines[0].opens && len(p.lines[0].words) == 0 {
		l.opens = p.next().opens
	}
	return l
}

func keys(words []string) (keys []string) {
	for _, word := range words {
		for key := range strings.SplitSeq(word, ",") {
			if key != "" {
				keys = append(keys, strings.ToLower(key))
			}
		}
	}
	return keys
}

// body returns the lines up to the brace that closes the one of a line. A text with a single block may omit its
// braces.
func (p *parser) body(opener line, depth int) (list []Directive) {
	for len(p.lines) > 0 {
		l := p.next()
		if l.closes {
			return list
		}
		if p.importFiles(l) {
			continue
		}
		d := Directive{Line: l.number, File: l.file}
		if len(l.words) > 0 {
			d.Name, d.Args = l.words[0], l.words[1:]
		} else {
			p.problem(l, "{ is not at the end of a line")
		}
		if l.opens && depth == maxNested {
			p.problem(l, "braces are nested too deeply")
			p.lines = nil
			return list
		}
		if l.opens {
			d.Body = p.body(l, depth+1)
		}
		list = append(list, p.withSnippet(d)...)
	}
	if opener.opens {
		p.problem(opener, "the block is not closed: } is missing")
	}
	return list
}

// withSnippet returns the directives of the snippet that d imports, or d.
func (p *parser) withSnippet(d Directive) []Directive {
	snippet, ok := p.snippets[strings.Join(d.Args, " ")]
	if p.expanded += len(snippet); d.Name != "import" || !ok || p.expanded > maxWords {
		return []Directive{d}
	}
	return snippet
}
