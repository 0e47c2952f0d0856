// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// A Field is one setting of a configuration of type C: a row in the table of its Kind.
// Flags, error messages, the need of restarts and docs/configuration.md are derived from it.
type Field[C any] struct {
	Path    string // in the file, such as "snapshot.path"
	Flag    string // name of the flag that overrides the file; "": no flag
	Usage   string // help text of the flag
	Restart bool   // a change takes effect when the server restarts

	// At returns a pointer to the setting as it is in the file.
	At func(*C) any

	// Check validates the setting, sets it to its default if it is empty, and stores its
	// parsed value in C. It must replace slices and pointers instead of changing what they
	// refer to, because copies of C share that. nil: every value is valid.
	Check func(*C) error

	// Values are the valid values, and "" is valid, too. nil: every string is valid.
	Values []string

	// Wanted are the valid values of a flag for a number, for the error about another text. "": all
	// of the type.
	Wanted string

	// Clear clears other fields of the file that the flag overrides, too. nil: none.
	Clear func(*C)

	// RequireFlagValue says that an empty value of the flag is an error. In the file it is the
	// default.
	RequireFlagValue bool

	// IgnoreEmptyFlag says that an empty value of the flag does not override the file.
	IgnoreEmptyFlag bool
}

// A Kind is a kind of configuration file.
type Kind[C any] struct {
	Name   string
	Fields []Field[C]

	parse   func(data []byte) (C, error)
	resolve func(c *C, file string)             // resolves relative paths; nil: there are none
	finish  func(c *C, source *Source[C]) error // checks for required fields, reads the files that c refers to
}

// Defaults returns the configuration of an empty file.
func (k *Kind[C]) Defaults() C {
	var c C
	k.check(&c, inField) // finds no problem: only finish requires fields
	return c
}

// NeedRestart returns the paths of the fields that differ in next and take effect when the
// server restarts.
func (k *Kind[C]) NeedRestart(running, next C) []string {
	var paths []string
	for _, f := range k.Fields {
		if f.Restart && !reflect.DeepEqual(f.At(&running), f.At(&next)) {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// A problem is an invalid value, or values that cannot be combined.
type problem struct {
	paths []string // of the fields
	err   error
}

// joinProblems returns the errors of problems as one.
func joinProblems(problems []problem) error {
	var errs []error
	for _, p := range problems {
		errs = append(errs, p.err)
	}
	return errors.Join(errs...)
}

// check validates all fields of c and returns all problems. name returns the name of a field
// in their messages.
func (k *Kind[C]) check(c *C, origin func(path string) kube.Location) (problems []problem) {
	for _, f := range k.Fields {
		err := f.checkValues(c)
		if err == nil && f.Check != nil {
			err = f.Check(c)
		}
		if err == nil {
			continue
		}
		for _, e := range excerpt.Unjoin(err) {
			paths := []string{f.Path}
			if other, ok := errors.AsType[conflictError](e); ok {
				paths = append(paths, other.paths...)
			}
			problems = append(problems, problem{paths, describe(f.Path, e, origin)})
		}
	}
	return problems
}

func (f *Field[C]) checkValues(c *C) error {
	text, ok := f.At(c).(*string)
	if f.Values == nil || !ok || *text == "" || slices.Contains(f.Values, *text) {
		return nil
	}
	last := len(f.Values) - 1
	return fmt.Errorf("%q: want %s or %s", *text, strings.Join(f.Values[:last], ", "), f.Values[last])
}

// describe adds the name of the field at path to its error.
func describe(path string, err error, origin func(path string) kube.Location) error {
	if item, ok := errors.AsType[itemError](err); ok {
		return &kube.InputError{Location: origin(fmt.Sprintf("%s[%d]", path, item.index)), Err: item.error}
	}
	if below, ok := errors.AsType[belowError](err); ok {
		return &kube.InputError{Location: origin(path + below.path), Err: below.error}
	}
	if other, ok := errors.AsType[conflictError](err); ok {
		names := make([]string, len(other.paths))
		for i, p := range other.paths {
			names[i] = origin(p).Name()
		}
		err = conflictError{names}
	}
	return &kube.InputError{Location: origin(path), Err: err}
}

// inField returns the location of a field of an unknown file.
func inField(path string) kube.Location { return kube.Location{Field: path} }

// An itemError is about one item of a list.
type itemError struct {
	index int
	error
}

// A belowError is about a field of an item of a list; path is the rest of its path, such as
// "[1].options[0]".
type belowError struct {
	path string
	error
}

// A conflictError is about a field that cannot be combined with others.
type conflictError struct{ paths []string }

func (e conflictError) Error() string {
	return "cannot be combined with " + strings.Join(e.paths, " or ")
}

// The rows of settings that several servers have. at returns the setting as it is in the file,
// and where its parsed value is stored.

func httpField[C any](at func(*C) *string) Field[C] {
	return Field[C]{
		Path: "http", Flag: "http", Restart: true, At: func(c *C) any { return at(c) },
		Usage: "`ADDR` of the status page, /metrics, /livez and /readyz; empty: none",
		Check: func(c *C) error { return daemon.CheckAddress(*at(c)) },
	}
}

func logFormatField[C any](at func(*C) *string) Field[C] {
	return Field[C]{
		Path: "logFormat", Flag: "log-format", Restart: true, At: func(c *C) any { return at(c) },
		Usage: "`FORMAT` of the log: text or json", Values: []string{"text", "json"},
		Check: func(c *C) error { return setDefault(at(c), v1alpha1.DefaultLogFormat) },
	}
}

func clusterDomainField[C any](at func(*C) (*string, *fqdn.Name)) Field[C] {
	return Field[C]{
		Path: "clusterDomain", Flag: "cluster-domain", RequireFlagValue: true, Restart: true,
		At:    func(c *C) any { text, _ := at(c); return text },
		Usage: "`DOMAIN` of the cluster",
		Check: func(c *C) (err error) {
			text, domain := at(c)
			*domain, err = parseClusterDomain(text)
			return err
		},
	}
}

func upstreamPolicyField[C any](at func(*C) (*string, *upstream.Policy)) Field[C] {
	return Field[C]{
		Path: "upstreamPolicy", Flag: "upstream-policy", At: func(c *C) any { text, _ := at(c); return text },
		Usage:  "`ORDER` in which upstream servers are tried: sequential, random or roundRobin",
		Values: upstream.Policies(),
		Check: func(c *C) error {
			text, policy := at(c)
			*text = cmp.Or(*text, string(upstream.Sequential))
			*policy = upstream.Policy(*text)
			return nil
		},
	}
}

// stubDomainsField has the zones of the cluster from zones.
func stubDomainsField[C any](at func(*C) (*[]v1alpha1.StubDomain, *[]upstream.StubDomain), zones func(*C) clusterZones) Field[C] {
	return Field[C]{
		Path: "stubDomains", Flag: "stub-domain", At: func(c *C) any { stubs, _ := at(c); return stubs },
		Usage: "`ZONE=ADDR,..`: a domain with servers of its own; repeatable",
		Check: func(c *C) (err error) {
			stubs, parsed := at(c)
			*parsed, err = parseStubDomains(*stubs, zones(c))
			return err
		},
	}
}

// specialUseField is true by default.
func specialUseField[C any](at func(*C) (**bool, *bool)) Field[C] {
	return Field[C]{
		Path: "localNames.specialUse", Restart: true, At: func(c *C) any { value, _ := at(c); return value },
		Check: func(c *C) error {
			value, parsed := at(c)
			if *value == nil {
				*value = new(true)
			}
			*parsed = **value
			return nil
		},
	}
}
