// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

var update = flag.Bool("update", false, "write docs/configuration.md")

const referencePage = "../../docs/configuration.md"

// TestReference checks that docs/configuration.md is generated from the rows and from the
// comments of api/v1alpha1.
func TestReference(t *testing.T) {
	docs := apiComments(t)
	var b strings.Builder
	b.WriteString(`# Configuration reference

This page lists every field of the configuration files, with its flag and its default.

It is generated: ` + "`go test ./internal/config -run TestReference -update`" + ` writes it from the
source code. ` + "`dnsconfigurer config defaults KIND`" + ` prints a file with comments, and
` + "`dnsconfigurer config check FILE`" + ` checks one.

Rules for all kinds:

- A flag overrides its field. A command reads its file from ` + "`--config FILE`" + `.
- ` + "`apiVersion: " + v1alpha1.GroupVersion + "`" + ` and ` + "`kind`" + ` are required. Unknown fields are errors.
- Durations are Go durations, such as ` + "`500ms`, `10s` or `24h`" + `.
- A server polls its file every 5 seconds and applies it when it was unchanged for two polls, or at
  once on SIGHUP. Fields marked "restart" take effect when the server restarts. If the file is
  invalid, the server keeps the previous configuration, logs the reason, and sets
  ` + "`dnsconfigurer_config_last_reload_success`" + ` to 0.
`)
	writeKind(&b, ShimKind(), "dnsconfigurer shim", docs)
	b.WriteString(`
The commands ` + "`render`, `validate` and `lookup`" + ` read the fields below ` + "`node` and `autopath`" + `, and have
the same flags for them.
`)
	writeKind(&b, AgentKind(), "dnsconfigurer agent", docs)
	writeKind(&b, DNSKind(), "dnsconfigurer dns", docs)
	writeKind(&b, NodeCacheKind(), "dnsconfigurer nodecache", docs)
	writeKind(&b, WebhookKind(), "dnsconfigurer webhook", docs)
	if *update {
		if err := os.WriteFile(referencePage, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(page), b.String()); diff != "" {
		t.Errorf("docs/configuration.md is out of date, run this test with -update (-page +generated):\n%s", diff)
	}
}

func writeKind[C any](b *strings.Builder, k *Kind[C], command string, docs map[string]string) {
	fmt.Fprintf(b, "\n## %s\n\nThe file of `%s`.\n\n", k.Name, command)
	b.WriteString("| field | flag | type | default | restart | meaning |\n|---|---|---|---|---|---|\n")
	defaults := k.Defaults()
	for _, f := range k.Fields {
		flag, restart := "", ""
		if f.Flag != "" {
			flag = "`--" + f.Flag + "`"
		}
		if f.Restart {
			restart = "restart"
		}
		at := f.At(&defaults)
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s | %s |\n", f.Path, flag, typeOf(at), valueOf(at), restart, meaning(k.Name, f.Path, docs))
	}
	for _, name := range []string{"snapshot", "limits", "node"} {
		if text := docs[k.Name+"."+name]; text != "" {
			fmt.Fprintf(b, "\n%s\n", text)
		}
	}
}

// typeOf returns the type of a field in the words of YAML.
func typeOf(at any) string {
	switch at.(type) {
	case *string, **string:
		return "string"
	case *[]string, **[]string:
		return "list of strings"
	case *bool, **bool:
		return "boolean"
	case *int, *uint16, **uint32:
		return "number"
	case *[]v1alpha1.StubDomain:
		return "list of `{zone, servers}`"
	case *[]v1alpha1.NodeRule:
		return "list of rules"
	}
	panic(fmt.Sprintf("no name for %T", at))
}

// valueOf returns the default of a field. It is empty for fields whose meaning says what an
// empty or absent field does.
func valueOf(at any) string {
	v := reflect.Indirect(reflect.ValueOf(at))
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.IsZero() {
		return ""
	}
	if list, ok := v.Interface().([]string); ok {
		return "`[" + strings.Join(list, ", ") + "]`"
	}
	return fmt.Sprintf("`%v`", v.Interface())
}

// meaning returns the comment on the field at path of a kind, with the names of the file.
func meaning(kind, path string, docs map[string]string) string {
	text, last := "", kind
	for name := range strings.SplitSeq(path, ".") {
		text = docs[last+"."+name]
		if text == "" {
			text = docs[docs[last+" type"]+"."+name]
		}
		last = docs[last+"."+name+" type"]
	}
	text = subject.ReplaceAllString(text, "")
	return strings.ToUpper(text[:1]) + text[1:]
}

var (
	// goName matches the Go names of fields in comments, except TTL and TLS, which are words.
	goName = regexp.MustCompile(`\b[A-Z][A-Za-z]*[a-z][A-Za-z]*\b`)

	// subject matches the beginning of a comment, which a table does not need.
	subject = regexp.MustCompile("^(`\\w+`|HTTP|TTL) (is|lists) ")
)

// apiComments returns the comments on the fields of api/v1alpha1 as "Struct.field", and the
// struct type of a field as "Struct.field type". The type that a struct embeds is "Struct type".
func apiComments(t *testing.T) map[string]string {
	t.Helper()
	docs, jsonNames := map[string]string{}, map[string]string{}
	files, err := filepath.Glob("../../api/v1alpha1/config*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				addComments(spec.Name.Name, spec.Type.(*ast.StructType), docs, jsonNames)
			}
			return true
		})
	}
	for key, text := range docs {
		if !strings.HasSuffix(key, " type") {
			docs[key] = replaceGoNames(text, jsonNames)
		}
	}
	return docs
}

// addComments adds the comments on the fields of a struct to docs, and their names in the file
// to jsonNames.
func addComments(name string, of *ast.StructType, docs, jsonNames map[string]string) {
	for _, f := range of.Fields.List {
		if len(f.Names) == 0 {
			docs[name+" type"] = f.Type.(*ast.Ident).Name // the last one: the first is TypeMeta
			continue
		}
		inFile, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
		jsonNames[f.Names[0].Name] = inFile
		docs[name+"."+inFile] = strings.Join(strings.Fields(f.Doc.Text()), " ")
		if of, ok := f.Type.(*ast.Ident); ok {
			docs[name+"."+inFile+" type"] = of.Name
		}
	}
}

func replaceGoNames(text string, jsonNames map[string]string) string {
	return goName.ReplaceAllStringFunc(text, func(word string) string {
		if name := jsonNames[word]; name != "" {
			return "`" + name + "`"
		}
		return word
	})
}
