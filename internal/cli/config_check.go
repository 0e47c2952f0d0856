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
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/corefile"
	"github.com/dnsconfigurer/dnsconfigurer/internal/dnsnode"
	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/node"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodefacts"
	"github.com/dnsconfigurer/dnsconfigurer/internal/shim"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// codeInvalid is the code of an error in a configuration file.
const codeInvalid = "invalid-configuration"

// checkFile returns the findings about a configuration file with their places in it, and the errors
// for which the process would not use it. The findings are about the node, too: its resolv.conf
// is that of this machine. With fieldsOnly it reads no other file, a field may be missing, and there
// are no findings.
func checkFile(f config.File, fieldsOnly bool) ([]v1alpha1.Finding, error) {
	kind, err := kindOf(f)
	if err != nil {
		return nil, err
	}
	var found []policy.Finding
	switch kind {
	case corefileKey:
		return nil, checkCorefile(f)
	case v1alpha1.KindDNS:
		found, err = checkKind(dnsnode.ClusterDNSKind(), f, fieldsOnly, nil)
	case v1alpha1.KindNodeCache:
		found, err = checkKind(dnsnode.NodeCacheKind(), f, fieldsOnly, nil)
	case v1alpha1.KindWebhook:
		found, err = checkKind(webhook.Kind(), f, fieldsOnly, nil)
	case v1alpha1.KindAgent:
		found, err = checkKind(node.AgentKind(), f, fieldsOnly, func(c node.AgentConfig) ([]policy.Finding, error) {
			return c.Node.Check()
		})
	case v1alpha1.KindShim:
		found, err = checkKind(shim.Kind(), f, fieldsOnly, func(c shim.Config) ([]policy.Finding, error) {
			problem := shim.Check(c)
			found, err := c.Node.Check()
			return found, errors.Join(problem, err)
		})
	default: // a kubelet's own file; every other kind is an error
		var n nodefacts.Node
		if n, err = nodefacts.FromFile(f, kind); err == nil && !fieldsOnly {
			found, err = n.Check()
		}
	}
	list, places := Findings(found), f.Places()
	for i, found := range list {
		at := places.Of(found.Field)
		list[i].File, list[i].Line, list[i].Column = f.Path, at.Line, at.Column
	}
	return list, err
}

// kindOf returns the kind of a configuration file. A Corefile has none: its first line begins a block, or
// has the zone of the only one.
func kindOf(f config.File) (string, error) {
	kind, err := f.Kind()
	if err == nil {
		return kind, nil
	}
	for line := range strings.Lines(string(f.Text)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			if line[0] == '.' || strings.Index(line, "{") > 0 && !strings.Contains(line, ": ") {
				return corefileKey, nil
			}
			break
		}
	}
	return "", err
}

// checkCorefile returns what CoreDNS would refuse. Variables, and the files that it imports, are not judged.
func checkCorefile(f config.File) error {
	blocks, problems := corefile.Source{}.Parse(corefile.File{Name: f.Path, Text: string(f.Text)})
	problems = slices.Concat(problems, corefile.DuplicateZones(blocks),
		corefile.Refused(blocks, func(bool) bool { return true }))
	return corefile.Problems(problems)
}

// checkKind checks a file of one kind. check is called with the loaded configuration; nil: a file is valid
// if it loads.
func checkKind[C any](
	k *config.Kind[C], f config.File, fieldsOnly bool, check func(C) ([]policy.Finding, error),
) ([]policy.Finding, error) {
	source := k.FromText(f)
	if fieldsOnly {
		return nil, source.CheckFields()
	}
	c, err := source.Load()
	if err == nil {
		err = source.CheckFiles(&c)
	}
	if err != nil || check == nil {
		return nil, err
	}
	return check(c)
}

// errorFindings returns a finding for each of the errors that err joins, which checkFile
// has returned for path.
func errorFindings(path string, err error) []v1alpha1.Finding {
	if err == nil {
		return nil
	}
	var list []v1alpha1.Finding
	for _, e := range excerpt.Unjoin(err) {
		f := v1alpha1.Finding{
			Code: codeInvalid, Severity: string(policy.SeverityError),
			EnforcedBy: string(policy.EnforcedByDNSConfigurer), File: path, Message: e.Error(),
		}
		if in, ok := errors.AsType[*kube.InputError](e); ok && in.File == path {
			f.Line, f.Column, f.Field, f.Message = in.Line, in.Column, in.Field, in.Err.Error()
		}
		list = append(list, f)
	}
	return list
}

const (
	stdinName     = "stdin"
	configMapKind = "ConfigMap"

	// maxFiles is the maximum number of configuration files in a ConfigMap. Each is checked with the
	// lines before it, which are empty: a process has one, or a few.
	maxFiles = 32
)

// An entry is a configuration file to check.
type entry struct {
	config.File
	key string // in the data of a ConfigMap; "": a file of its own
}

// name returns the name of a file in messages about the whole file.
func (e entry) name() string {
	if e.key == "" || strings.HasSuffix(e.Path, "/"+e.key) {
		return e.Path
	}
	return e.Path + "/" + e.key
}

// read returns the configuration files at path: one, or those in the data of ConfigMaps. path
// "-" is standard input. passed are the keys of a ConfigMap that have no configuration file.
func read(path string, stdin io.Reader) (entries []entry, passed []string, err error) {
	f, err := readFile(path, stdin)
	if err != nil {
		return nil, nil, err
	}
	if t, err := v1alpha1.ReadTypeMeta(f.Text); err == nil && slices.Contains([]string{configMapKind, "List"}, t.Kind) {
		return configMapEntries(f)
	}
	entries, passed, err = renderedEntries(f)
	if err != nil || len(entries) > 0 {
		return entries, passed, err
	}
	return []entry{{File: f}}, nil, nil // the check reports the error
}

// renderedEntries returns the configuration files in the ConfigMaps among several documents, as helm template
// prints them. Each ConfigMap, and each document with an error, is read with the lines before it, which are empty.
func renderedEntries(f config.File) (entries []entry, passed []string, err error) {
	for line, text := range kube.Documents(f.Text) {
		t, err := v1alpha1.ReadTypeMeta(text)
		if bytes.Contains(text, []byte(v1alpha1.GroupVersion)) && (t.Kind == configMapKind || err != nil && len(text) < len(f.Text)) {
			padded := slices.Concat(bytes.Repeat([]byte("\n"), line-1), text)
			more, keys, err := configMapEntries(config.File{Path: f.Path, Text: padded})
			if err != nil {
				return nil, nil, err
			}
			entries, passed = append(entries, more...), append(passed, keys...)
		}
		if len(entries) > maxFiles {
			return nil, nil, f.Locate(fmt.Errorf("more than %d configuration files: check them one by one", maxFiles))
		}
	}
	return entries, passed, nil
}

// readFile reads a configuration file or a Corefile, also in a ConfigMap.
func readFile(path string, stdin io.Reader) (config.File, error) {
	f, err := readText(path, stdin)
	if err != nil {
		return f, err
	}
	if len(bytes.TrimSpace(f.Text)) == 0 {
		return f, f.Locate(errors.New("is empty: want a configuration file, a Corefile or a ConfigMap"))
	}
	if _, err := v1alpha1.ReadTypeMeta(f.Text); err != nil && helmAction.Match(f.Text) {
		return f, f.Locate(errors.New("is a template: render the chart first, as with helm template"))
	}
	return f, nil
}

// helmAction matches actions of Helm, except those that a Corefile may have for the plugin template, such as {{ .Name }}.
var helmAction = regexp.MustCompile(`(?m)^\s*\{\{|\{\{-?\s*(\.Values|\.Release|\.Chart|include)\b`)

func readText(path string, stdin io.Reader) (config.File, error) {
	if path != "-" {
		f, err := config.ReadFile(path)
		if errors.Is(err, syscall.EISDIR) {
			err = fmt.Errorf("%w: name one file", err)
		}
		return f, err
	}
	text, err := io.ReadAll(io.LimitReader(stdin, config.MaxFile+1))
	switch {
	case err != nil:
		return config.File{}, fmt.Errorf("%s: %w", stdinName, err)
	case len(text) > config.MaxFile:
		return config.File{}, fmt.Errorf("%s: larger than %d bytes", stdinName, config.MaxFile)
	}
	return config.File{Path: stdinName, Text: text}, nil
}

// configMapEntries returns the configuration files in the data of a ConfigMap, or of a list of them.
func configMapEntries(f config.File) (entries []entry, passed []string, err error) {
	object, err := decodeConfigMaps(f.Text)
	if err != nil {
		return nil, nil, f.Locate(err)
	}
	positions := document.NewPositions(f.Text)
	for i, m := range append(object.Items, object) {
		field := "data"
		if i < len(object.Items) {
			field = fmt.Sprintf("items[%d].data", i)
		}
		for _, key := range slices.Sorted(maps.Keys(m.Data)) {
			e := entry{config.File{Path: f.Path + "/" + key, Text: []byte(m.Data[key])}, key}
			switch {
			case !e.isConfiguration():
				passed = append(passed, key)
				continue
			case len(entries) == maxFiles:
				return nil, passed, &kube.InputError{Location: f.Places().At(field),
					Err: fmt.Errorf("more than %d configuration files in the ConfigMap: check them one by one", maxFiles)}
			}
			if text, ok := positions.Literal(fmt.Sprintf("%s[%q]", field, key)); ok {
				e.File = config.File{Path: f.Path, Text: text}
			}
			entries = append(entries, e)
		}
	}
	if len(entries) == 0 {
		return nil, passed, &kube.InputError{Location: f.Places().At("data"),
			Err: errors.New("no configuration file in the ConfigMap: want an entry such as dns.yaml")}
	}
	return entries, passed, nil
}

// isConfiguration reports whether the key has an extension of YAML or JSON, or the text is of a kind that has checks.
func (e entry) isConfiguration() bool {
	if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.key)) || e.key == corefileKey {
		return true
	}
	t, err := v1alpha1.ReadTypeMeta(e.Text)
	return err == nil && slices.Contains(append(v1alpha1.Kinds(), kube.KubeletKind), t.Kind)
}

// CheckOptions are the values of the flags of the command config check.
type CheckOptions struct {
	Format  string // text or json
	NoFiles bool   // check the fields only
}

// Register adds the flags.
func (o *CheckOptions) Register(flags *pflag.FlagSet) {
	usage.FormatFlag(flags, &o.Format, "`FORMAT`: text or json (JSON Lines, one for each finding)", "text", "json")
	flags.BoolVar(&o.NoFiles, "no-files", false,
		"check only the fields of FILE: do not read the files that it names, and accept missing fields")
}

// Run checks the configuration file at path, "-" for standard input, or each one in the data of a
// ConfigMap, and writes the findings. passed is false if it has written a finding of severity error.
func (o *CheckOptions) Run(ctx context.Context, path string, stdin io.Reader, stdout, stderr io.Writer) (passed bool, err error) {
	entries, others, err := read(path, stdin)
	if path == "-" {
		path = stdinName
	}
	if err != nil {
		if o.Format != "json" {
			return false, err
		}
		return false, WriteFileFindings(stdout, o.Format, path, errorFindings(path, err))
	}
	for _, key := range others {
		WriteError(stderr, fmt.Errorf("%s: data: %s is not a configuration file: not checked", path, key))
	}
	passed = true
	var errs []error
	for _, e := range entries {
		ok, err := o.check(e, stdout, stderr)
		passed = passed && ok
		errs = append(errs, err)
	}
	return passed, errors.Join(errs...)
}

// check writes the findings about a file. In JSON these include its errors; as text, a file
// without errors has a line, too. The paths in a ConfigMap are those of a container.
func (o *CheckOptions) check(e entry, stdout, stderr io.Writer) (passed bool, err error) {
	fieldsOnly, remark := o.NoFiles || e.key != "", ""
	if fieldsOnly {
		remark = " in its fields; files that it names were not read"
	}
	found, problem := checkFile(e.File, fieldsOnly)
	if o.Format == "json" {
		found, problem = append(found, errorFindings(e.Path, problem)...), nil
	}
	if err := WriteFileFindings(stdout, o.Format, e.Path, found); err != nil {
		return false, err
	}
	passed = !slices.ContainsFunc(found, func(f v1alpha1.Finding) bool { return f.Severity == string(policy.SeverityError) })
	if passed && problem == nil && o.Format != "json" {
		kind, _ := kindOf(e.File) // checkFile has read it
		WriteError(stderr, fmt.Errorf("%s: %s: no errors%s", e.name(), kind, remark))
	}
	return passed, problem
}
