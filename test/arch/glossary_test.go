// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

const glossaryFile = "../../docs/architecture.md"

// TestGlossary checks that each term of the glossary is there once, in alphabetical
// order, with a meaning.
func TestGlossary(t *testing.T) {
	content := must.Get(os.ReadFile(glossaryFile))(t)
	_, glossary, _ := strings.Cut(string(content), "\n## Glossary\n")
	var last string
	terms := 0
	for line := range strings.Lines(glossary) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 3 || strings.Trim(cells[1], "- ") == "" || strings.TrimSpace(cells[1]) == "term" {
			continue
		}
		terms++
		term := strings.ToLower(strings.TrimSpace(cells[1]))
		switch {
		case len(cells) != 4 || strings.TrimSpace(cells[2]) == "":
			t.Errorf("want | term | meaning |: %s", line)
		case term == last:
			t.Errorf("%q is in the glossary twice", term)
		case term < last:
			t.Errorf("%q is after %q: want alphabetical order", term, last)
		}
		last = term
	}
	if terms == 0 {
		t.Error("the glossary has no terms")
	}
}

// renamed are identifiers that had a private meaning, with the terms that replaced
// them.
var renamed = map[string]string{
	"asked": "question or queryType", "crowd": "busyBatch", "restTime": "batchDelay", "rushTime": "batchWindow",
	"elsewhere": "forward", "atHand": "lookupCache", "spelled": "withOwnerCase", "aliased": "withTarget", "walked": "walkAnswer",
	"vouched": "withSOA", "inquire": "await", "inquiry": "lookups", "refusal": "rejected",
	"ours": "replyOPT", "poor": "fallback",
	"ofStranger": "reasonSource", "ofNoSense": "reasonMalformed", "sentSilent": "sentIgnored", "NotThere": "NXDomain",
	"disown": "removeOwner", "ignorance": "privateRanges", "asker": "client", "Asker": "Client", "judge": "classify",
	"useless": "uncacheable", "popular": "prefetchHits", "nearEnd": "prefetchWindow", "mostEntries": "maxEntries", "fly": "resolve",
	"flying": "inFlight", "flights": "group", "rested": "retryAt", "resting": "backoff", "told": "loggedDown", "toldAt": "loggedAt",
	"quiet": "logInterval", "heard": "lastReply", "Player": "Simulator", "standIn": "clusterStub", "grain": "mtimeGranularity",
	"inForce": "applier", "companion": "backgroundTask", "besides": "relativeTo", "hangups": "sighup", "frugal": "tuneRuntime",
	"LookedUp": "LookupResult", "RenderedPod": "RenderResult", "ValidatedObject": "ValidateResult", "Dies": "Crashes", "Died": "Crashed",
	"NotSurvived": "Crashes", "adviseSurvival": "adviseCrash", "quick": "fast path",
}

// TestRenamedIdentifiers checks that no declared name is one that was replaced.
func TestRenamedIdentifiers(t *testing.T) {
	for _, s := range sources(t) {
		for name := range declaredNames(s.file) {
			if term, ok := renamed[name.Name]; ok {
				t.Errorf("%s:%d: %s: use a term of the glossary, such as %s", s.name, s.pos.Position(name.Pos()).Line, name.Name, term)
			}
		}
	}
}

// declaredNames returns the identifiers that a file declares at any level.
func declaredNames(f *ast.File) map[*ast.Ident]bool {
	names := map[*ast.Ident]bool{}
	add := func(list ...*ast.Ident) {
		for _, name := range list {
			names[name] = true
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Name)
		case *ast.TypeSpec:
			add(n.Name)
		case *ast.ValueSpec:
			add(n.Names...)
		case *ast.Field:
			add(n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				add(identifiers(n.Lhs...)...)
			}
		case *ast.RangeStmt:
			add(identifiers(n.Key, n.Value)...)
		}
		return true
	})
	return names
}

func identifiers(list ...ast.Expr) (names []*ast.Ident) {
	for _, e := range list {
		if name, ok := e.(*ast.Ident); ok {
			names = append(names, name)
		}
	}
	return names
}
