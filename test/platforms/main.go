// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Command platforms checks the types of all packages for other operating systems, from their source:
//
//	go run ./test/platforms darwin windows
//
// go vet would compile 500 dependencies for each. Their functions are not checked here.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	for _, system := range os.Args[1:] {
		if err := check(system); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// check prints the errors in the packages below the working directory and in their tests.
func check(system string) error {
	own, err := os.Getwd()
	if err != nil {
		return err
	}
	list, err := packages.Load(&packages.Config{
		Mode: packages.LoadAllSyntax, Tests: true, Env: append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
		ParseFile: func(fset *token.FileSet, name string, text []byte) (*ast.File, error) {
			file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
			if err == nil && !strings.HasPrefix(name, own+string(filepath.Separator)) {
				removeBodies(file)
			}
			return file, err
		},
	}, "./...")
	if err != nil {
		return err
	}
	// The dependencies have errors: their imports are unused. So has the main function that go test writes.
	list = slices.DeleteFunc(list, func(p *packages.Package) bool { return strings.HasSuffix(p.ID, ".test") })
	failed := len(list) == 0
	for _, p := range list {
		for _, e := range p.Errors {
			fmt.Fprintln(os.Stderr, e)
			failed = true
		}
	}
	if failed {
		return fmt.Errorf("the packages do not compile for %s", system)
	}
	return nil
}

func removeBodies(file *ast.File) {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			f.Body = nil
		}
	}
}
