// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

var update = flag.Bool("update", false, "write docs/configuration.md")

const referencePage = "../../docs/configuration.md"

// TestReference checks that docs/configuration.md is generated from the rows and from the
// comments of api/v1alpha1.
func TestReference(t *testing.T) {
	writeComments(t)
	for _, k := range []struct {
		name string
		text string
	}{
		{v1alpha1.KindShim, defaultsOf(&Kind[shim]{})}, {v1alpha1.KindAgent, defaultsOf(&Kind[agent]{})},
		{v1alpha1.KindDNS, defaultsOf(&Kind[dns]{})}, {v1alpha1.KindNodeCache, defaultsOf(&Kind[nodeCache]{})},
		{v1alpha1.KindWebhook, defaultsOf(&Kind[webhook]{})},
	} {
		compareFile(t, "../../api/v1alpha1/defaults/"+k.name+".yaml", k.text)
	}
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
  once on SIGHUP. Fields marked "Restart" take effect when the server restarts. If the file is
  invalid, the server keeps the previous configuration, logs the reason, and sets
  ` + "`dnsconfigurer_config_last_reload_success`" + ` to 0.
`)
	known := map[string]string{}
	writeKind(&b, known, &Kind[shim]{}, "dnsconfigurer shim")
	b.WriteString(`
The commands ` + "`render`, `validate` and `lookup`" + ` read the fields below ` + "`node` and `autopath`" + `, and have
flags for the facts of the node.
`)
	writeKind(&b, known, &Kind[agent]{}, "dnsconfigurer agent")
	writeKind(&b, known, &Kind[dns]{}, "dnsconfigurer dns")
	writeKind(&b, known, &Kind[nodeCache]{}, "dnsconfigurer nodecache")
	writeKind(&b, known, &Kind[webhook]{}, "dnsconfigurer webhook")
	compareFile(t, referencePage, b.String())
}

// compareFile compares a generated file, or writes it with -update.
func compareFile(t *testing.T, path, text string) {
	t.Helper()
	if *update {
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o644))
	}
	old := must.Get(os.ReadFile(path))(t)
	if diff := cmp.Diff(string(old), text); diff != "" {
		t.Errorf("%s is out of date, run this test with -update, twice if a comment has changed (-file +generated):\n%s", path, diff)
	}
}

// writeKind writes the fields of a kind. known has the rows of earlier kinds, with the name of the kind: they are not
// written again.
func writeKind[C any](b *strings.Builder, known map[string]string, k *Kind[C], command string) {
	fmt.Fprintf(b, "\n## %s\n\nThe file of `%s`.\n\n", k.Name(), command)
	b.WriteString("| field, flag | type | default | meaning |\n|---|---|---|---|\n")
	defaults := k.Defaults()
	sections, same := map[string]string{}, map[string][]string{}
	for _, f := range k.fields() {
		flag, restart := "", " No restart."
		if name := k.flagOf(&f); name != "" {
			flag = ", `--" + name + "`"
		}
		if f.restart {
			restart = " Restart."
		}
		at := f.in(api(&defaults)).Addr().Interface()
		text := meaning(&f) + limits(&f)
		row := fmt.Sprintf("| `%s`%s | %s | %s | ", f.path, flag, typeOf(at), valueOf(at))
		if kind := known[row+text+restart]; kind != "" {
			same[kind] = append(same[kind], "`"+f.path+"`")
			continue
		}
		known[row+text+restart] = k.Name()
		if kind := known[f.path+text]; kind != "" { // another default, or another restart
			text = fmt.Sprintf("As in [%s](#%s).", kind, strings.ToLower(kind))
		} else {
			known[f.path+text] = k.Name()
			restart = strings.TrimPrefix(restart, " No restart.")
		}
		b.WriteString(row + text + restart + " |\n")
		if section, _, nested := strings.Cut(f.path, "."); nested {
			sections[section] = v1alpha1.Comment(k.Name(), section)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(same)) {
		fmt.Fprintf(b, "\nAs in [%s](#%s): %s.\n", kind, strings.ToLower(kind), strings.Join(same[kind], ", "))
	}
	for _, name := range []string{"node"} {
		if text := sections[name]; text != "" {
			fmt.Fprintf(b, "\n%s\n", text)
		}
	}
}

// limits returns the limits of a field, as a sentence.
func limits(f *field) string {
	least, most := f.tag.Get("min"), f.tag.Get("max")
	switch {
	case most == "":
		return ""
	case least == "":
		return " At most " + most + "."
	}
	return " " + least + " to " + most + "."
}

// defaultsOf returns the file of the command config defaults: every field with its comment.
func defaultsOf[C any](k *Kind[C]) string {
	var b strings.Builder
	comment(&b, "", v1alpha1.Comment(k.Name(), "type")+" Every field may be left out: the value shown is its default.")
	fmt.Fprintf(&b, "apiVersion: %s\nkind: %s\n", v1alpha1.GroupVersion, k.Name())
	defaults, section := k.Defaults(), ""
	for _, f := range k.fields() {
		indent, outer := "", ""
		if before, _, nested := strings.Cut(f.path, "."); nested {
			indent, outer = "  ", before
		}
		b.WriteString("\n")
		if outer != section && outer != "" {
			if text := v1alpha1.Comment(k.Name(), outer); text != "" {
				comment(&b, "", text)
			}
			b.WriteString(outer + ":\n")
		}
		section = outer
		comment(&b, indent, meaning(&f)+limits(&f))
		v := f.in(api(&defaults))
		name, value := f.name(), yamlValue(v)
		if v.Kind() == reflect.Pointer && v.IsNil() || v.Kind() == reflect.String && v.Len() == 0 && f.values() != nil {
			name = "# " + name // absent is not empty
		}
		fmt.Fprintf(&b, "%s%s: %s\n", indent, name, value)
	}
	return b.String()
}

// yamlValue returns a value in YAML.
func yamlValue(v reflect.Value) string {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v = reflect.Zero(v.Type().Elem())
		} else {
			v = v.Elem()
		}
	}
	if v.Kind() == reflect.Slice && v.Len() == 0 {
		return "[]"
	}
	text, err := json.Marshal(v.Interface())
	if err != nil {
		panic(err)
	}
	return string(text)
}

// comment writes a text as lines of a comment.
func comment(b *strings.Builder, indent, text string) {
	line := indent + "#"
	for _, word := range strings.Fields(strings.ReplaceAll(text, "`", "")) {
		if len(line)+1+len(word) > 96 {
			b.WriteString(line + "\n")
			line = indent + "#"
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
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
		return "list of `{zone, servers, file, lastKnownGood}`"
	case *[]v1alpha1.Rewrite:
		return "list of `{name, regex, to}`"
	case *[]v1alpha1.ACLRule:
		return "list of `{action, zone, types, networks}`"
	case *[]v1alpha1.Answer:
		return "list of `{zone, type, regex, records, rcode}`"
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

// meaning returns the comment on a field, without its subject.
func meaning(f *field) string {
	text := subject.ReplaceAllString(v1alpha1.Comment(f.of, f.name()), "")
	return strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):]
}

var (
	// goName matches the Go names of fields in comments, except TTL and TLS, which are words.
	goName = regexp.MustCompile(`\b[A-Z][A-Za-z]*[a-z][A-Za-z]*\b`)

	// subject matches the beginning of a comment, which a table does not need.
	subject = regexp.MustCompile("^`\\w+` (is|lists) ")
)

// writeComments generates api/v1alpha1/defaults/comments.txt: for each field of api/v1alpha1 the line
// "Struct.field: comment", and for each struct "Struct.type: comment".
func writeComments(t *testing.T) {
	t.Helper()
	var lines []string
	jsonNames := map[string]string{}
	files, err := filepath.Glob("../../api/v1alpha1/config*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		file := must.Get(parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments))(t)
		for _, decl := range file.Decls {
			if types, ok := decl.(*ast.GenDecl); ok && types.Tok == token.TYPE {
				spec := types.Specs[0].(*ast.TypeSpec)
				lines = append(lines, spec.Name.Name+".type: "+oneLine(types.Doc))
				lines = append(lines, fieldComments(spec.Name.Name, spec.Type.(*ast.StructType), jsonNames)...)
			}
		}
	}
	for i, line := range lines {
		name, text, _ := strings.Cut(line, ": ")
		lines[i] = name + ": " + replaceGoNames(text, jsonNames)
	}
	compareFile(t, "../../api/v1alpha1/defaults/comments.txt", strings.Join(lines, "\n")+"\n")
}

func oneLine(doc *ast.CommentGroup) string { return strings.Join(strings.Fields(doc.Text()), " ") }

// fieldComments returns the lines of the fields of a struct, and adds their names in the file to
// jsonNames.
func fieldComments(name string, of *ast.StructType, jsonNames map[string]string) (lines []string) {
	for _, f := range of.Fields.List {
		if len(f.Names) == 0 {
			continue
		}
		inFile, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
		jsonNames[f.Names[0].Name] = inFile
		if text := oneLine(f.Doc); text != "" {
			// The subject is the field, also where its name is a word, such as HTTP.
			text = strings.Replace(text, f.Names[0].Name+" ", "`"+inFile+"` ", 1)
			lines = append(lines, name+"."+inFile+": "+text)
		}
	}
	return lines
}

func replaceGoNames(text string, jsonNames map[string]string) string {
	return goName.ReplaceAllStringFunc(text, func(word string) string {
		if name := jsonNames[word]; name != "" {
			return "`" + name + "`"
		}
		return word
	})
}
