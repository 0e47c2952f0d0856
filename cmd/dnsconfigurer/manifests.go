// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/internal/manifest"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// manifestFlags are the flags of commands that read manifests.
type manifestFlags struct {
	manifest.Input
	namespace string
}

func (m *manifestFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&m.Paths, "filename", "f", nil, "`FILE|DIR|-` with manifests, or a pattern such as 'deploy/*.yaml'; repeatable")
	flags.BoolVarP(&m.Recursive, "recursive", "R", false, "read the subdirectories of directories, too")
	flags.BoolVar(&m.Strict, "strict", false,
		"unknown fields that do not affect DNS are errors; they are those of a newer Kubernetes, or misspelled")
	flags.StringVarP(&m.namespace, "namespace", "n", "default", "`NAMESPACE` of objects without one")
}

// check checks the flags. args are further paths.
func (m *manifestFlags) check(args []string) error {
	if m.namespace != "" && fqdn.LabelProblems(m.namespace) != nil {
		return usageError{fmt.Errorf("--namespace %q: want a DNS label such as shop", m.namespace)}
	}
	if m.Paths = append(m.Paths, args...); len(m.Paths) == 0 {
		return usageError{errors.New("no manifests: name files, or set -f")}
	}
	return nil
}
