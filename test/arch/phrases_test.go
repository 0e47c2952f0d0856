// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// phrases are forbidden in comments, strings and documentation, because each has a
// common term that a stranger understands at once. The value says what to write.
var phrases = map[string]string{
	`askers?`:                      "client",
	`hears?`:                       "receives",
	`heard of`:                     "known",
	`nobody`:                       "no one, or name the thing",
	`whoever`:                      "name the client or the server",
	`somebody`:                     "another process, or name it",
	`who asks`:                     "client",
	`go(es|ing)? along`:            "expand, try each",
	`in the place of`:              "instead of",
	`tells? whether`:               "reports whether",
	`quick way`:                    "fast path",
	`plain way`:                    "slow path",
	`in force`:                     "applied, current",
	`stands? in for`:               "replaces, simulates",
	`at hand`:                      "cached, available",
	`of ours`:                      "name the owner",
	`of theirs`:                    "name the owner",
	`of one's own`:                 "its own",
	`that is none`:                 "that is not one",
	`the way there`:                "name the step or the path",
	`(is|are|was|were) told`:       "is notified, receives",
	`hands off`:                    "opts out, leaves unchanged",
	`so be it`:                     "that is fine",
	`besides`:                      "except, and also",
	`as they say`:                  "quote the source",
	`what came`:                    "the message, the reply",
	`what is asked`:                "the query",
	`rests`:                        "waits, backs off",
	`(is|are|was|were) of no use`:  "is unusable",
	`troubles? with`:               "cannot ...",
	`takes? away`:                  "removes",
	`is no [a-z]+`:                 `"is not a"`,
	`whom to ask`:                  "DNS server",
	`(is|are|was|were) not spoken`: "is not supported",
	`(is|are) not to be had`:       "is not available",
	`by any means`:                 "name them: network, container",

	// rare enough to be a second sentence; "each of which" and its like are common English
	`([a-z]+ )?of which`: "repeat the noun, or a second sentence",
}

// notPhrases are common English although a phrase matches them.
var notPhrases = regexp.MustCompile(`(?i)^(is no (longer|more|less|\w+er|one)|there is no \w+|` +
	`(each|one|two|three|some|none|most|first|last) of which)$`)

// quoted are texts with a forbidden phrase that other programs write. The key is the
// file, the value a part of the text.
var quoted = map[string][]string{
	// log messages of 0.1.0
	"CHANGELOG.md": {"is of no use", "stays in force", "settings in force", "trouble with", "is told whom to trust", "this is no review"},

	// The RNAME of local zones (RFC 6303 section 3).
	"pkg/dnsserver/local_names.go":     {"nobody.invalid."},
	"pkg/dnsserver/zone_order_test.go": {"nobody.invalid."},
	"test/bench/spec/local.go":         {"nobody.invalid."},
}

var forbidden = func() *regexp.Regexp {
	var all []string
	for p := range phrases {
		all = append(all, p)
	}
	slices.Sort(all)
	return regexp.MustCompile(`(?i)\b(there )?(` + strings.Join(all, "|") + `)\b`)
}()

// text is a piece of prose.
type text struct {
	file string
	line int
	text string
}

// comments and strings of a Go file. A comment that spans lines is one text.
func (s source) texts() (list []text) {
	add := func(p token.Pos, t string) { list = append(list, text{s.name, s.pos.Position(p).Line, t}) }
	for _, c := range s.file.Comments {
		add(c.Pos(), c.Text())
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				if value, err := strconv.Unquote(n.Value); err == nil {
					add(n.Pos(), value)
				}
			}
		}
		return true
	})
	return list
}

// documents returns the text files for people: documentation, manifests and build
// files.
func documents(t *testing.T) (list []text) {
	t.Helper()
	paths := []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile"}
	for _, root := range []string{"docs", "deploy", "examples", "test"} {
		must.Succeed(t, filepath.WalkDir("../../"+root, func(p string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case e.IsDir() && e.Name() == "testdata":
				return fs.SkipDir
			case !e.IsDir() && slices.Contains([]string{".md", ".yaml", ".sh", ".mod", ".service", ".socket", ".timer"}, path.Ext(p)):
				paths = append(paths, strings.TrimPrefix(p, "../../"))
			}
			return nil
		}))
	}
	for _, p := range paths {
		content := must.Get(os.ReadFile("../../" + p))(t)
		list = append(list, text{p, 1, string(content)})
	}
	return list
}

// findPhrases returns the forbidden phrases of a text, with place and replacement.
func findPhrases(t text) (found []string) {
	// A phrase may be broken by a line, and by the comment sign of a manifest.
	flat := strings.Join(strings.Fields(strings.NewReplacer("\n# ", "\n", "\n// ", "\n").Replace(t.text)), " ")
	for _, at := range forbidden.FindAllStringIndex(flat, -1) {
		phrase := flat[at[0]:at[1]]
		if notPhrases.MatchString(phrase) || isQuoted(t.file, phrase, flat[max(0, at[0]-100):]) {
			continue
		}
		found = append(found, fmt.Sprintf("%s:%d: %q: write %s", t.file, t.line+lineOf(t.text, phrase), phrase, replacement(phrase)))
	}
	return found
}

func isQuoted(file, phrase, after string) bool {
	return slices.ContainsFunc(quoted[file], func(q string) bool {
		return strings.Contains(q, phrase) && strings.Contains(after, q)
	})
}

// lineOf returns the number of lines before phrase's first word in s, a guess if the
// phrase is broken.
func lineOf(s, phrase string) int {
	before, _, ok := strings.Cut(s, phrase)
	if !ok {
		before, _, _ = strings.Cut(s, strings.Fields(phrase)[0])
	}
	return strings.Count(before, "\n")
}

func replacement(phrase string) string {
	for p, instead := range phrases {
		if regexp.MustCompile(`(?i)^(there )?(` + p + `)$`).MatchString(phrase) {
			return instead
		}
	}
	return "something else"
}

func TestForbiddenPhrases(t *testing.T) {
	texts := documents(t)
	for _, s := range sources(t) {
		if !ast.IsGenerated(s.file) && s.name != "test/arch/phrases_test.go" && s.name != "test/arch/glossary_test.go" {
			texts = append(texts, s.texts()...)
		}
	}
	for _, text := range texts {
		for _, found := range findPhrases(text) {
			t.Error(found)
		}
	}
}

func TestFindPhrases(t *testing.T) {
	tests := []struct {
		text string
		want int
	}{
		{"It hears the reply.", 1},
		{"It is in\nforce.", 1},
		{"# It is in\n# force.", 1},
		{"This is no address.", 1},
		{"There is no address, and it is no longer used.", 0},
		{"Nobody asks, so be it.", 2},
		{"An entire, sheared forest.", 0},
		{"A log of which more is not read, and two logs, each of which is short.", 1},
	}
	for _, tt := range tests {
		if got := findPhrases(text{"x.md", 1, tt.text}); len(got) != tt.want {
			t.Errorf("%q: %q, want %d", tt.text, got, tt.want)
		}
	}
}
