// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// report writes err to w, each joined error on its own, with the hints there are.
func report(w io.Writer, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			report(w, e)
		}
		return
	}
	fmt.Fprintf(w, "dnsconfigurer: %v\n", err)
	if input, ok := errors.AsType[*kube.InputError](err); ok && input.Hint != "" {
		fmt.Fprintf(w, "hint: %s\n", input.Hint)
	}
}

// within puts the name of a file before err, before each of them when err joins
// several.
func within(file string, err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return fmt.Errorf("%s: %w", file, err)
	}
	var errs []error
	for _, e := range joined.Unwrap() {
		errs = append(errs, within(file, e))
	}
	return errors.Join(errs...)
}

// outputFlag checks the value of -o.
func outputFlag(value string, allowed ...string) error {
	if !slices.Contains(allowed, value) {
		return usageError{fmt.Errorf("-o %q: want %s", value, strings.Join(allowed, ", "))}
	}
	return nil
}

// findings turns findings into their wire form.
func findings(found []policy.Finding) []v1alpha1.Finding {
	wire := make([]v1alpha1.Finding, 0, len(found))
	for _, f := range found {
		wire = append(wire, v1alpha1.Finding{
			Code:       string(f.Code),
			Severity:   string(f.Severity),
			EnforcedBy: string(f.EnforcedBy),
			Reason:     f.Reason,
			Field:      f.Field,
			Message:    f.Message,
			Hint:       f.Hint,
		})
	}
	return wire
}
