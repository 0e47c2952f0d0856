// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/corefile"
	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

// ImportOptions are the options of the conversion of a Corefile.
type ImportOptions struct {
	Variables []string // NAME=VALUE, of variables and placeholders in the Corefile
	Check     string   // the program of CoreDNS to compare with; "": none
}

// Run writes the configuration for the Corefile in the file at name, "-" for standard input, and to stderr what
// differs. It reports whether all queries get the answers of CoreDNS.
func (o *ImportOptions) Run(ctx context.Context, name string, stdin io.Reader, stdout, stderr io.Writer) (passed bool, err error) {
	variables, err := o.variables()
	if err != nil {
		return false, err
	}
	f, err := readFile(name, stdin)
	if err != nil {
		return false, err
	}
	read, err := newCorefileSource(f)
	if err != nil {
		return false, err
	}
	blocks, problems := corefile.Source{
		Import: read.files,
		Variable: func(name string) (string, bool) {
			value, ok := variables[name]
			if !ok && name == "__PILLAR__UPSTREAM__SERVERS__" {
				return "/etc/resolv.conf", true // as NodeLocal DNSCache, unless the ConfigMap kube-dns has others
			}
			return value, ok
		},
	}.Parse(read.corefile)
	if err := corefile.Problems(problems); err != nil {
		return false, err
	}
	text, notes, err := corefile.Convert(blocks)
	if err != nil {
		return false, err
	}
	passed = true
	for _, n := range append(read.notes, notes...) {
		mark := ""
		if n.Changes {
			mark, passed = " (answers change)", false
		}
		fmt.Fprintf(stderr, "%s%s\n", visible(n.String()), mark)
	}
	// A value that CoreDNS accepts and this server does not, such as a zone twice.
	converted := config.File{Path: "the configuration", Text: text}
	if _, err := checkFile(converted, true); err != nil {
		return false, err
	}
	if _, err = stdout.Write(text); err != nil || o.Check == "" {
		return passed, err
	}
	same, err := checkAnswers(ctx, o.Check, blocks, converted, stderr)
	return passed && same, err
}

func (o *ImportOptions) variables() (map[string]string, error) {
	variables := map[string]string{}
	for _, v := range o.Variables {
		name, value, ok := strings.Cut(v, "=")
		if !ok {
			return nil, usage.Errorf("--set %q: want NAME=VALUE", v)
		}
		variables[name] = value
	}
	return variables, nil
}

// corefileSource is where a Corefile and the files that it imports are: in the keys of ConfigMaps, or in a directory.
type corefileSource struct {
	corefile corefile.File
	keys     []corefile.File // of the ConfigMaps, without the Corefile; nil: files are imported from directories
	isMap    bool
	notes    []corefile.Note
}

const corefileKey = "Corefile"

func newCorefileSource(f config.File) (*corefileSource, error) {
	s := &corefileSource{corefile: corefile.File{Name: f.Path, Text: string(f.Text)}}
	var first []byte
	for _, first = range kube.Documents(f.Text) {
		break
	}
	t, err := v1alpha1.ReadTypeMeta(first)
	switch {
	case !utf8.Valid(f.Text) || bytes.IndexByte(f.Text, 0) >= 0:
		return nil, fmt.Errorf("%s: not a text file: want a Corefile, or the ConfigMap with its text", f.Path)
	case err != nil || t.Kind == "":
		return s, nil
	}
	s.isMap, s.corefile = true, corefile.File{}
	for _, text := range kube.Documents(f.Text) {
		if err := s.addObject(text); err != nil {
			return nil, f.Locate(err)
		}
	}
	if s.corefile.Name == "" {
		reader := "validate"
		if slices.Contains(append(v1alpha1.Kinds(), kube.KubeletKind), t.Kind) {
			reader = "config check"
		}
		return nil, fmt.Errorf("%s: no Corefile, and no ConfigMap with the key Corefile: dnsconfigurer %s reads a %s",
			f.Path, reader, t.Kind)
	}
	slices.SortStableFunc(s.keys, func(a, b corefile.File) int { return strings.Compare(path.Base(a.Name), path.Base(b.Name)) })
	return s, nil
}

// configMaps is a ConfigMap, or a list of ConfigMaps.
type configMaps struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Data  map[string]string `json:"data"`
	Items []configMaps      `json:"items"`
}

func decodeConfigMaps(text []byte) (object configMaps, err error) {
	js, err := document.JSON(text, 1)
	if err == nil {
		err = document.Decode(js, &object)
	}
	return object, err
}

// addObject adds the keys of the ConfigMaps in a document.
func (s *corefileSource) addObject(text []byte) error {
	object, err := decodeConfigMaps(text)
	if err != nil {
		return err
	}
	for _, m := range append(object.Items, object) {
		for _, key := range slices.Sorted(maps.Keys(m.Data)) {
			f := corefile.File{Name: m.Metadata.Name + "/" + key, Text: m.Data[key]}
			if key == corefileKey && s.corefile.Name == "" {
				s.corefile = f
			} else {
				s.keys = append(s.keys, f)
			}
		}
	}
	return nil
}

// files returns the files of an import, as CoreDNS finds them: relative to the importing file, with at most one *.
func (s *corefileSource) files(from, pattern string) (files []corefile.File, err error) {
	if strings.Count(pattern, "*") > 1 || strings.ContainsAny(pattern, "?[") {
		return nil, errors.New("want at most one *, and no ? and [")
	}
	if s.isMap {
		for _, f := range s.keys {
			if ok, _ := path.Match(path.Base(pattern), path.Base(f.Name)); ok {
				files = append(files, f)
			}
		}
	} else if files, err = readImported(from, pattern); err != nil {
		return nil, err
	}
	switch {
	case len(files) > 0:
	case !strings.Contains(pattern, "*") && s.isMap:
		return nil, errors.New("no ConfigMap has this key: add the ConfigMap that is mounted there")
	case !strings.Contains(pattern, "*"):
		return nil, errors.New("no such file")
	default:
		s.notes = append(s.notes, corefile.Note{File: from, Line: 1, Message: fmt.Sprintf(
			"import %s: no file: if the cluster has such a ConfigMap, as coredns-custom, add it to the input", pattern)})
	}
	return files, nil
}

func readImported(from, pattern string) (files []corefile.File, err error) {
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(filepath.Dir(from), pattern)
	}
	names, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			continue
		}
		text, err := atomicfile.ReadRegular(name, config.MaxFile)
		if err != nil {
			return nil, excerpt.Prefix(name, err)
		}
		files = append(files, corefile.File{Name: name, Text: string(text)})
	}
	return files, nil
}
