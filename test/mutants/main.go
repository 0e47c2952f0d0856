// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Command mutants measures tests: it changes one random place of a package at a time, runs the tests of
// the package, and counts the changes that a test finds. The places that no test found are printed.
//
//	go run ./test/mutants -n 60 -seed 1 ./pkg/policy ./pkg/cri
//
// Each argument is a package, or several joined by commas whose places are drawn together.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// mutant replaces the bytes from start to end of a file by text.
type mutant struct {
	pkg, file  string
	start, end int
	text       string
	line       int
}

func main() {
	n := flag.Int("n", 60, "the number of mutants of each argument")
	seed := flag.Uint64("seed", 1, "the seed of the selection")
	flag.Parse()
	for _, group := range flag.Args() {
		if err := measure(strings.Split(group, ","), *n, *seed); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// measure prints the share of n random mutants of the packages that their tests find.
func measure(pkgs []string, n int, seed uint64) error {
	var all []mutant
	for _, pkg := range pkgs {
		if out, err := exec.Command("go", "test", "-vet=off", pkg).CombinedOutput(); err != nil {
			return fmt.Errorf("%s fails unchanged: %w\n%s", pkg, err, out)
		}
		found, err := mutants(pkg)
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })

	tried, killed := 0, 0
	for _, m := range all {
		if tried == n {
			break
		}
		compiled, found, err := m.run()
		switch {
		case err != nil:
			return err
		case !compiled:
			continue
		case found:
			killed++
		default:
			fmt.Printf("not found: %s:%d: %q\n", m.file, m.line, m.text)
		}
		tried++
	}
	fmt.Printf("%s: %d of %d mutants found (%.1f %%), drawn from %d\n",
		strings.Join(pkgs, ","), killed, tried, 100*float64(killed)/float64(tried), len(all))
	return nil
}

// run reports whether the package compiles with the mutant, and whether a test of it fails.
func (m mutant) run() (compiled, found bool, err error) {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return false, false, err
	}
	defer os.RemoveAll(dir)
	text, err := os.ReadFile(m.file)
	if err != nil {
		return false, false, err
	}
	changed := string(text[:m.start]) + m.text + string(text[m.end:])
	replaced := filepath.Join(dir, filepath.Base(m.file))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {m.file: replaced}})
	if err != nil {
		return false, false, err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(replaced, []byte(changed), 0o600); err != nil {
		return false, false, err
	}
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return false, false, err
	}
	if exec.Command("go", "build", "-overlay", list, m.pkg).Run() != nil {
		return false, false, nil
	}
	test := exec.Command("go", "test", "-vet=off", "-failfast", "-timeout", (5 * time.Minute).String(), "-overlay", list, m.pkg)
	return true, test.Run() != nil, nil
}

// mutants lists the places of the package that can be changed.
func mutants(pkg string) ([]mutant, error) {
	out, err := exec.Command("go", "list", "-f", `{{range .GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}`, pkg).Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", pkg, err)
	}
	var all []mutant
	for _, file := range strings.Fields(string(out)) {
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		add := func(from, to token.Pos, text string) {
			start, end := fset.Position(from), fset.Position(to)
			all = append(all, mutant{pkg: pkg, file: file, start: start.Offset, end: end.Offset, text: text, line: start.Line})
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				ast.Inspect(f.Body, func(node ast.Node) bool { return mutate(node, add) })
			}
		}
	}
	return all, nil
}

// operators has the replacement of each operator that is changed.
var operators = map[token.Token]string{
	token.EQL: "!=", token.NEQ: "==", token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
	token.LAND: "||", token.LOR: "&&", token.ADD: "-", token.SUB: "+",
}

// mutate adds the changes of one node.
func mutate(node ast.Node, add func(from, to token.Pos, text string)) bool {
	switch n := node.(type) {
	case *ast.BinaryExpr:
		if text, ok := operators[n.Op]; ok {
			add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), text)
		}
	case *ast.IfStmt:
		add(n.Cond.Pos(), n.Cond.Pos(), "true || ")
		add(n.Cond.Pos(), n.Cond.Pos(), "false && ")
	case *ast.BasicLit:
		if i, err := strconv.Atoi(n.Value); err == nil && n.Kind == token.INT {
			add(n.Pos(), n.End(), strconv.Itoa(i+1))
		}
	case *ast.Ident:
		switch n.Name {
		case "true":
			add(n.Pos(), n.End(), "false")
		case "false":
			add(n.Pos(), n.End(), "true")
		}
	case *ast.ExprStmt:
		add(n.Pos(), n.End(), "")
	case *ast.IncDecStmt:
		add(n.Pos(), n.End(), "")
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			add(n.Pos(), n.End(), "")
		}
	case *ast.BranchStmt:
		add(n.Pos(), n.End(), "")
	}
	return true
}
