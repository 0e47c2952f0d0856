// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// defaults has for each kind the output of Defaults, and comments.txt the texts of Comment. They are
// generated from the types: go test ./internal/config -run TestReference -update
//
//go:embed defaults
var defaults embed.FS

// Defaults returns a configuration file of the given kind that has and explains every
// field, at its default.
func Defaults(kind string) ([]byte, error) {
	text, err := defaults.ReadFile("defaults/" + kind + ".yaml")
	if err != nil {
		whole := strings.TrimSuffix(kind, "Configuration") + "Configuration"
		return nil, fmt.Errorf("unknown kind %q%s", kind,
			cmp.Or(excerpt.DidYouMean(whole, "", Kinds()), ": want "+strings.Join(Kinds(), ", ")))
	}
	return text, nil
}

// Comment returns the comment on a field of a struct of this package, with the names of the file. The
// field is given by its name in the file.
func Comment(of, field string) string {
	text, err := defaults.ReadFile("defaults/comments.txt")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut("\n"+string(text), "\n"+of+"."+field+": ")
	comment, _, _ := strings.Cut(rest, "\n")
	return comment
}

// ReadTypeMeta returns the apiVersion and kind of data, which is YAML or JSON.
func ReadTypeMeta(data []byte) (TypeMeta, error) {
	var t TypeMeta
	js, err := toJSON(data)
	if err != nil {
		return t, err
	}
	if err := document.Decode(js, &t); err != nil {
		return t, fmt.Errorf("not a configuration file: %w", err)
	}
	return t, nil
}

// toJSON rejects a second YAML document, which the decoder would ignore.
func toJSON(data []byte) ([]byte, error) {
	begun := false
	for line := range bytes.Lines(data) {
		text := bytes.TrimSpace(line)
		switch {
		case bytes.HasPrefix(line, []byte("---")):
			if begun {
				return nil, errors.New("holds more than one YAML document")
			}
		case len(text) > 0 && text[0] != '#':
			begun = true
		}
	}
	return document.JSON(data, 1)
}

// Parse decodes a configuration file of the kind T strictly. The error joins all problems, each with its
// field.
func Parse[T any](data []byte) (T, error) {
	var c T
	err := Decode(data, &c)
	return c, err
}

// Decode is Parse for a pointer to a configuration.
func Decode(data []byte, into any) error {
	js, err := toJSON(data)
	if err != nil {
		return err
	}
	c := reflect.ValueOf(into).Elem()
	problems := document.DecodeStrict(js, into)
	meta, kind := c.FieldByName("TypeMeta").Interface().(TypeMeta), c.Type().Name()
	for i, problem := range problems {
		problems[i] = withReplacement(problem, c.Type())
	}
	if t, ok := errors.AsType[*document.TypeError](errors.Join(problems...)); ok && t.Field == "" {
		return t // the document is not a mapping: it has no fields
	}
	if meta.Kind != "" && meta.Kind != kind {
		return wrongKind(meta.Kind, kind) // its fields are those of another kind
	}
	if meta.APIVersion != GroupVersion {
		problems = append(problems,
			&document.TypeError{Field: "apiVersion", Problem: fmt.Sprintf("is %q, must be %q", meta.APIVersion, GroupVersion)})
	}
	if meta.Kind == "" {
		problems = append(problems, wrongKind("", kind))
	}
	return errors.Join(problems...)
}

// withReplacement adds to the error about a field of 0.1.0 what replaces it, and to that about an unknown field of
// the type t the field that is meant.
func withReplacement(problem error, t reflect.Type) error {
	var unknown interface{ FieldPath() string }
	if errors.As(problem, &unknown) {
		if by := Replacement(unknown.FieldPath()); by != "" {
			return fmt.Errorf("%w: %s", problem, by)
		}
		return fmt.Errorf("%w%s", problem, similarField(t, unknown.FieldPath()))
	}
	if t, ok := errors.AsType[*document.TypeError](problem); ok && Replacement(t.Field) != "" {
		t.Problem += ": " + Replacement(t.Field)
	}
	return problem
}

var listIndex = regexp.MustCompile(`\[\d+\]`)

// similarField returns the end of the error about an unknown field: the field of t that is meant, which has a similar
// path, or the same name in another place. Otherwise the fields beside it.
func similarField(t reflect.Type, unknown string) string {
	path, paths := listIndex.ReplaceAllString(unknown, "[]"), fieldPaths(t, "")
	paths = paths[:len(paths)-1] // the last is that of t itself
	parent, name := path[:strings.LastIndex(path, ".")+1], path[strings.LastIndex(path, ".")+1:]
	if i := slices.IndexFunc(paths, func(p string) bool { return strings.HasSuffix("."+p, "."+name) }); i >= 0 {
		path = paths[i]
	}
	if similar := excerpt.DidYouMean(path, "", paths); similar != "" {
		return similar
	}
	if parent == "" {
		return ": dnsconfigurer config defaults " + t.Name() + " prints all fields"
	}
	var beside []string
	for _, p := range paths {
		if field, ok := strings.CutPrefix(p, parent); ok && field != "" && !strings.Contains(field, ".") {
			beside = append(beside, field)
		}
	}
	return ": want " + strings.Join(beside, ", ")
}

// fieldPaths returns the paths of all fields of t, such as stubDomains[].zone.
func fieldPaths(t reflect.Type, prefix string) (paths []string) {
	switch t.Kind() {
	case reflect.Pointer:
		return fieldPaths(t.Elem(), prefix)
	case reflect.Slice:
		return fieldPaths(t.Elem(), prefix+"[]")
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				paths = append(paths, fieldPaths(f.Type, strings.TrimPrefix(prefix+"."+name, "."))...)
			}
		}
	}
	return append(paths, strings.TrimSuffix(prefix, "[]"))
}

// wrongKind returns the error about a file of kind got where kind want is read.
func wrongKind(got, want string) error {
	problem := fmt.Sprintf("is %q, must be %q", got, want)
	if got == "KubeletConfiguration" {
		problem += ": the file of a kubelet is for --kubelet-config"
	}
	return &document.TypeError{Field: "kind", Problem: problem}
}

// removed has what replaces the fields of 0.1.0. The tables are for one release.
var removed = map[string]string{
	"limits":         "maxQueries and maxMemory have replaced it",
	"localNames":     byOthers,
	"autopathSuffix": bySuffix, "autopath.suffix": bySuffix,
	"snapshot":   "write the path, which was snapshot.path",
	"ednsOption": "it was removed: the code of the option is 65313",

	"selfSigned": byTLS, "namespace": byTLS,
	"kubeconfig": "it was removed: the webhook reads no objects of the API server",
	"refresh":    byAgent, "refreshDryRun": "it was removed: refresh of AgentConfiguration can be DryRun", "sandboxDirectories": byAgent,
	"inCluster":             "it was removed: without kubeconfig, an agent in a pod uses its service account",
	"queryLog.file":         "it was removed: the log is on standard output, in the log of the container or the service",
	"statusSocket":          "it was removed: the socket is agent-status.sock beside the agent's",
	"node.uplinkResolvConf": "set hostResolver to this path",

	"drainTimeout":   "it was removed: calls have 4 seconds when the shim stops",
	"refreshRate":    "it was removed: 200 files a second are rewritten",
	"verifyInterval": "it was removed: files are compared every 5 minutes",
}

// removedFlags has the fields that replace the flags of 0.1.0.
var removedFlags = map[string]string{
	"autopath-network": "autopathNetworks", "autopath-service": "autopathService",
	"cluster-dns": "node.clusterDNS", "cluster-domain": "node.clusterDomain", "deny-on": "denyOn",
	"host-suffix": "hostSuffixes", "ignore": "ignore", "interface": "interface",
	"kubeconfig":     "kubeconfig (webhook: leave it out)",
	"kubelet-config": "node.kubeletConfig", "kubelet-config-dir": "node.kubeletConfigDir", "lameduck": "lameduck",
	"log-format": "logFormat", "manifests": "manifests",
	"namespace": "tls.certFile and tls.keyFile (webhook)", "node-ip": "node.nodeIPs", "notrack": "notrack", "pods": "pods",
	"resolv-conf": "resolvConf (shim and agent: node.resolvConf)", "reverse-cidr": "reverseCIDRs",
	"runtime-endpoint": "runtimeEndpoint", "snapshot": "snapshot", "stub-domain": "stubDomains",
	"tls-cert": "tls.certFile", "tls-key": "tls.keyFile", "ttl": "ttl", "upstream-policy": "upstreamPolicy",
}

// removedOtherFlags has what replaces the flags of 0.1.0 that no field replaces.
var removedOtherFlags = map[string]string{
	"autopath-suffix": bySuffix, "edns-option": removed["ednsOption"], "self-signed": byTLS,
	"config":           "install, uninstall, bypass and status read /etc/dnsconfigurer/shim.yaml",
	"in-cluster":       "it was removed: without kubeconfig, an agent in a pod uses its service account",
	"max-objects":      "it was removed: 50,000 objects of each kind are read",
	"snapshot-max-age": "it was removed: a snapshot is valid for 24 hours",
	"snapshot-wait":    "it was removed: the API server has 2 seconds",
	"strict":           "validate has it",
	"textfile-dir":     "it was removed: the event ShimBypassed and dnsconfigurer status report a bypass",
	"verbose":          "--fail-on info and -o json print findings of severity info",
}

// FlagReplacement returns what replaces a flag of 0.1.0; "" if it is not one. Only commands with a
// configuration file have replaced flags by fields.
func FlagReplacement(flag string, hasFile bool) string {
	if field := removedFlags[flag]; field != "" && hasFile {
		return "set " + field + " in the file of --config"
	}
	return removedOtherFlags[flag]
}

const (
	byOthers = "list private networks in reverseCIDRs; to forward special names, list their domain in stubDomains"
	bySuffix = "it was removed: the autopath domain is ap.k8s.io"
	byTLS    = "tls.certFile and tls.keyFile have replaced it: cert-manager or the Helm chart makes these files"
	byAgent  = "it is a field of AgentConfiguration: the agent keeps running pods up to date (docs/nodes.md#with-the-shim)"
)

// Replacement returns what replaces a field of 0.1.0; "" if it is not one.
func Replacement(field string) string { return removed[field] }
