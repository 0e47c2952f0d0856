// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/internal/manifest"
)

// addManifestFlags adds the flags of commands that read manifests.
func addManifestFlags(flags *pflag.FlagSet, in *manifest.Input) {
	flags.StringArrayVarP(&in.Paths, "filename", "f", nil, "`FILE|DIR|-` with manifests, or a pattern such as 'deploy/*.yaml'; repeatable")
	flags.BoolVarP(&in.Recursive, "recursive", "R", false, "read the subdirectories of directories, too")
	flags.BoolVar(&in.Strict, "strict", false,
		"report every unknown field as an error, not only those that are likely to be meant for DNS")
	flags.StringVarP(&in.Namespace, "namespace", "n", "default", "`NAMESPACE` of objects without one")
}
