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
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/multierr"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// report writes err to w, each joined error on its own, with the hints there are.
func report(w io.Writer, err error) {
	for _, e := range multierr.Unjoin(err) {
		fmt.Fprintf(w, "dnsconfigurer: %v\n", e)
		if input, ok := errors.AsType[*kube.InputError](e); ok && input.Hint != "" {
			fmt.Fprintf(w, "hint: %s\n", input.Hint)
		}
	}
}

// reportFindings writes findings about a node.
func reportFindings(w io.Writer, found []policy.Finding) {
	for _, f := range found {
		fmt.Fprintf(w, "dnsconfigurer: %s: %s\nhint: %s\n", f.Severity, f.Message, f.Hint)
	}
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
