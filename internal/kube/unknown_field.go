// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/json"

	"github.com/dnsconfigurer/dnsconfigurer/internal/spelling"
)

// UnknownField is a field that the API does not have, or that a newer version of it has, and
// that does not affect DNS. It is ignored.
type UnknownField struct {
	object origin
	path   string
}

// InputError returns the field as an error.
func (u UnknownField) InputError() *InputError {
	return &InputError{u.object.At(u.object.path(u.path)), errUnknownField, "check its spelling and its place"}
}

var errUnknownField = errors.New("unknown field")

// NoteUnknown returns a note about fields that are ignored, nil if there are none.
func NoteUnknown(fields []UnknownField) error {
	if len(fields) == 0 {
		return nil
	}
	objects, file := map[origin]bool{}, fields[0].object.file
	for _, f := range fields {
		objects[f.object] = true
		if f.object.file != file {
			file = "" // several
		}
	}
	return &InputError{
		Location{File: file},
		fmt.Errorf("%s in %s ignored", plural(len(fields), "unknown field"), plural(len(objects), "object")),
		"--strict lists them as errors",
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

var (
	// dnsFields are the fields of a pod from which its DNS follows. They are an error in any
	// place that does not have them: a wrong indentation moves them into a container.
	dnsFields = []string{"dnsPolicy", "dnsConfig", "hostname", "subdomain", "setHostnameAsFQDN",
		"hostnameOverride", "hostNetwork", "hostAliases"}

	// decidingFields are all fields from which DNS or the names of pods follow. A key beside
	// them that is almost one of them is an error.
	decidingFields = []string{
		"dnsPolicy", "dnsConfig", "hostname", "subdomain", "setHostnameAsFQDN", "hostnameOverride", "hostNetwork", "hostAliases",
		"os", "nodeSelector", "metadata", "spec", "template", "jobTemplate", "name", "generateName", "namespace", "labels", "annotations",
		"replicas", "ordinals", "serviceName", "completions", "completionMode",
		"clusterIP", "clusterIPs", "externalName", "selector", "ports", "ipFamilies", "ipFamilyPolicy", "publishNotReadyAddresses",
		"endpoints", "addresses", "addressType", "conditions",
	}

	// decidingParents are the objects that have decidingFields.
	decidingParents = []string{"", "metadata", "spec", "template", "jobTemplate", "ports", "endpoints"}
)

// unknownField returns the path of the field that err reports as unknown, and the hint if it
// may affect DNS: then it is an error.
func unknownField(err error) (path, hint string, ok bool) {
	f, isField := errors.AsType[json.FieldError](err)
	if !isField || !strings.HasPrefix(err.Error(), "unknown field") {
		return "", "", false
	}
	path = f.FieldPath()
	parent, name := splitPath(path)
	if top, _, _ := strings.Cut(path, "."); top == "status" {
		return path, "", true
	}
	if i := slices.IndexFunc(dnsFields, func(d string) bool { return strings.EqualFold(d, name) }); i >= 0 {
		hint = fmt.Sprintf("check its spelling and its place: %s is a field of a pod's spec", dnsFields[i])
	} else if meant, isClose := spelling.Closest(name, decidingFields); isClose && slices.Contains(decidingParents, parent) {
		hint = fmt.Sprintf("did you mean %s?", meant)
	} else if strings.Contains("."+path, ".dnsConfig.") {
		hint = "dnsConfig has nameservers, searches and options"
	}
	return path, hint, true
}

// isInvalid reports whether a problem is an error, and not an unknown field to ignore.
func isInvalid(problem error) bool {
	_, hint, unknown := unknownField(problem)
	return !unknown || hint != ""
}

// splitPath returns the last key of a path, and the one before it without its index.
func splitPath(path string) (parent, name string) {
	keys := strings.Split(path, ".")
	if len(keys) > 1 {
		parent, _, _ = strings.Cut(keys[len(keys)-2], "[")
	}
	return parent, keys[len(keys)-1]
}

// sortProblems returns the errors among the problems of decoding an object strictly, and the
// unknown fields that are ignored.
func (o origin) sortProblems(problems []error) (errs []error, ignored []UnknownField) {
	for _, p := range problems {
		path, hint, unknown := unknownField(p)
		switch {
		case !unknown:
			field, hint, err := fieldOf(p)
			errs = append(errs, &InputError{o.At(o.path(field)), err, hint})
		case hint == "":
			ignored = append(ignored, UnknownField{o, path})
		default:
			errs = append(errs, &InputError{o.At(o.path(path)), errUnknownField, hint})
		}
	}
	return errs, ignored
}
